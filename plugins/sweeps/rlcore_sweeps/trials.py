"""Keep what a study has tried in `SWEEP/trials.json`: settings, seeds, values, states.

It is written for readers, whenever a batch begins or ends; what the study itself goes on from is
`SWEEP/study.log`, the storage of Optuna.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from rlcore.files.atomic import write_text
from rlcore.files.damaged_files import blaming, read_as
from rlcore.files.reading import Unreadable
from rlcore.files.typed import as_type
from rlcore_sweeps.pruning import require_updates

FILE, HELD_OUT = "trials.json", "heldout"
TrialState = Literal["running", "complete", "pruned", "failed"]


@dataclass(frozen=True)
class Played:
    """A run of a trial.

    Attributes:
        job: its number in the sweep, which names its note `.jobs/JOB.json`.
        seed: `runner.seed`; None: the recipe's own.
        folder: of the run, in the sweep's folder; empty before it has one.
        value: the objective; None where it has none yet.
        steps: values of evaluations during training, by the number of updates.
        pruned: after how many updates it was ended; None: it was not.
        updates: how many it would have made; None where that is not known.
    """

    job: int
    seed: int | None = None
    folder: str = ""
    value: float | None = None
    steps: dict[str, float] = field(default_factory=dict)
    pruned: int | None = None
    updates: int | None = None


@dataclass(frozen=True)
class Trial:
    """A setting, and what came of it.

    Attributes:
        number: from 0, in the order in which they were proposed.
        batch: those of one batch were proposed together.
        setting: values by key or group.
        state: how far it got.
        value: the mean over its runs; None unless it is complete.
        runs: one for each seed, as far as they were started.
    """

    number: int
    batch: int
    setting: dict[str, Any]
    state: TrialState = "running"
    value: float | None = None
    runs: tuple[Played, ...] = ()


@dataclass(frozen=True)
class Measured:
    """A rate on held-out starts: its trial, n episodes, bounds of 95%, the rate of each run."""

    trial: int
    rate: float
    n: int
    lo: float
    hi: float
    seeds: list[float]


@dataclass(frozen=True)
class Gain:
    """A paired difference on held-out starts, with bounds of 95%."""

    mean: float
    lo: float
    hi: float


@dataclass(frozen=True)
class Trials:
    """All of a study.

    Attributes:
        objective: what `value` is: an entry of `summary.json`, or a metric.
        split: the starts that it is measured on.
        direction: "maximize" or "minimize".
        sampler, pruner, seed: how settings are proposed and ended.
        planned: how many trials the study is to have.
        seeds: of a trial's runs.
        trials: in order of their numbers.
        best: number of the best complete trial; None before there is one.
        heldout: what it came to on held-out starts, see :mod:`rlcore_sweeps.held_out`; empty
            before that was measured.
    """

    objective: str
    split: str
    direction: str
    sampler: str
    pruner: str
    seed: int
    planned: int
    seeds: tuple[int | None, ...]
    trials: tuple[Trial, ...] = ()
    best: int | None = None
    heldout: dict[str, Any] = field(default_factory=dict)

    def write(self, sweep: Path) -> None:
        """Keep it."""
        write_text(sweep / FILE, json.dumps(asdict(self), indent=1, allow_nan=False) + "\n")

    @classmethod
    def of(cls, sweep: Path) -> Trials | None:
        """Those of a sweep; None where it is no study.

        Raises:
            CheckpointError: the file is damaged.
        """
        file = sweep / FILE
        if not file.is_file():
            return None
        trials = read_as(cls, file)
        with blaming(file):
            trials._require_consistent()
        return trials

    def _require_consistent(self) -> None:
        """Raise Unreadable where an entry leads to another that is not there, or can't be shown."""
        numbers = [trial.number for trial in self.trials]
        if numbers != list(range(len(numbers))):
            raise Unreadable(f"trials must be numbered from 0, got {numbers!r:.60}")
        if self.best is not None and (
            self.best not in numbers or self.trials[self.best].value is None
        ):
            raise Unreadable(f"best must be the number of a complete trial, got {self.best}")
        require_updates(run.steps for trial in self.trials for run in trial.runs)
        for name, value in self.heldout.items():
            as_type(Gain if name == "difference" else Measured, value, f"heldout.{name}")
        if self.heldout and "best" not in self.heldout:
            raise Unreadable("heldout lacks 'best'")

    @property
    def over(self) -> bool:
        """Whether nothing is left to play."""
        told = len(self.trials) - self.count("running") == self.planned
        return told and bool(self.heldout or self.best is None or self.split == HELD_OUT)

    def count(self, state: TrialState) -> int:
        """How many trials are in a state."""
        return sum(trial.state == state for trial in self.trials)
