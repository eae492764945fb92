"""Check whether a tracker meets the contract of :class:`rlcore.contracts.protocols.Tracker`.

class TestMyTracker(TrackerConformance):
    name = "my_tracker"
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import ClassVar

from rlcore.config.schema import LoggerConfig
from rlcore.contracts.specs import Kind
from rlcore.plugins.import_target import load_target
from rlcore_testing.conformance.base import Conformance, require

METRICS = {"env/success_once": 0.5, "train/actor/lr": 1e-5, "time/update": 3}


class TrackerConformance(Conformance):
    """Checks of a tracker.

    Set `name`, and `settings` (keys of `runner.logger`) if the defaults are not suitable. A test of
    a tracker that needs an account sets the tracker's environment variables first.
    """

    kind: ClassVar[Kind] = "tracker"
    light = ()

    def log(
        self, folder: str, steps: Iterable[int], metrics: dict[str, float] | None = None
    ) -> None:
        """Build the tracker of a run in a folder, log metrics at some steps and close it.

        Args:
            metrics: the same mapping for each step; None: a new one of :data:`METRICS` for each.
        """
        Path(folder, "config.yaml").write_text("{}\n", encoding="utf-8")
        config = LoggerConfig(log_path=str(Path(folder).parent), **self.settings)
        tracker = load_target(self.component().target)(config, Path(folder))
        for step in steps:
            tracker.log(dict(METRICS) if metrics is None else metrics, step)
        tracker.close()

    def test_it_takes_a_run_s_numbers_and_closes(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.log(folder, range(3))

    def test_a_resumed_run_adds_to_what_is_there(self) -> None:
        """A resume builds a new tracker in the same folder, and repeats the updates after the
        checkpoint."""
        with tempfile.TemporaryDirectory() as folder:
            self.log(folder, range(3))
            before = _sizes(folder)
            self.log(folder, range(2, 4))
            after = _sizes(folder)
        shorter = sorted(name for name, size in before.items() if after.get(name, 0) < size)
        require("the list of files that a resume made shorter", shorter, [], "open files to append")

    def test_what_it_is_given_stays_as_it_is(self) -> None:
        metrics = dict(METRICS)
        with tempfile.TemporaryDirectory() as folder:
            self.log(folder, [0], metrics)
        hint = "copy what you change: other trackers get the same mapping"
        require("the mapping given to log, after the call,", metrics, METRICS, hint)

    def test_it_takes_numbers_that_are_not_finite(self) -> None:
        """A metric that has no value is NaN."""
        with tempfile.TemporaryDirectory() as folder:
            self.log(folder, [0], {"train/actor/loss": float("nan")})


def _sizes(folder: str) -> Mapping[str, int]:
    files = (file for file in Path(folder).rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): file.stat().st_size for file in files}
