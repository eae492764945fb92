"""Read the files of a run folder into one record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any

from rlcore.api import SavedRun, protocol_difference
from rlcore.files.damaged_files import damaged_error, damaged_on, read_mapping
from rlcore.files.reading import read_yaml
from rlcore.files.symlinks import leaves_folder, require_inside
from rlcore.results.tables import EpisodeResult, comparable
from rlcore.run_folder.folder import RunFolder
from rlcore_tools.places import CONCLUSIONS, clip
from rlcore_tools.report.benchmark import Benchmark, read_benchmarks
from rlcore_tools.report.doubts import doubts_of

Values = Mapping[str, Any]


@dataclass(frozen=True)
class RunRecord:
    """Contents of a run folder. A file that does not exist yet is None or empty.

    Attributes:
        folder: the run folder.
        config: resolved configuration.
        recipe: configuration of the recipe, without the run's own changes.
        manifest, summary: contents of `manifest.json` and `summary.json`.
        metrics: lines of `metrics.jsonl`.
        evaluations: episodes by label ("before", "after", "step_000010", ...).
        protocols: evaluation protocol by the same labels, as recorded with the episodes.
        benchmarks: tables of benchmark protocols.
        doubts: one sentence for each file that contradicts the run's other files.
    """

    folder: RunFolder
    config: Values
    recipe: Values | None
    manifest: Values
    summary: Values | None
    metrics: list[dict[str, float | None]]
    evaluations: Mapping[str, list[EpisodeResult]]
    protocols: Mapping[str, Values]
    benchmarks: Sequence[Benchmark]
    doubts: Sequence[str]

    @property
    def task_groups(self) -> Mapping[str, Sequence[str]]:
        """Names of tasks by group; empty for runs of earlier versions, which don't record them."""
        groups: Mapping[str, Sequence[str]] = self.manifest.get("task_groups", {})
        return groups

    @property
    def evaluated_on(self) -> str:
        """Which starts evaluations play, as a phrase such as "held-out starts"."""
        return str(self.manifest.get("evaluated_on", "starts"))

    @property
    def before(self) -> list[EpisodeResult] | None:
        """Episodes of the evaluation before training; None if there is none."""
        return self.evaluations.get("before")

    @property
    def conclusion(self) -> str | None:
        """Label of the final evaluation, one of `CONCLUSIONS`; None if there is none."""
        return next((label for label in CONCLUSIONS if label in self.evaluations), None)

    @property
    def after(self) -> list[EpisodeResult] | None:
        """Episodes of the final evaluation; None if there is none."""
        return self.evaluations[self.conclusion] if self.conclusion else None

    @property
    def protocol(self) -> Values:
        """Protocol of the final evaluation, or else of the one before training.

        The manifest's protocol is used if these evaluations record none.
        """
        ended = self.protocols.get(self.conclusion or "before", {})
        return ended or self.manifest.get("evaluation_protocol") or {}

    @property
    def left_out(self) -> dict[str, str]:
        """Evaluations whose protocol differs from the final one: `{label: difference}`.

        Without a final evaluation, the reference is the evaluation before training. Evaluations
        listed here are compared with no other.
        """
        ended = self.after or self.before or ()
        return {
            label: protocol_difference(self.protocols[label], self.protocol) or "unknown rules"
            for label, results in self.evaluations.items()
            if not comparable(results, ended)
        }

    def series(self, name: str) -> list[tuple[int, float]]:
        """Return `(step, value)` of a metric, sorted by step, without non-finite values.

        A resumed run may have logged a step twice; the later value is used.
        """
        found = {
            int(step): value
            for line in self.metrics
            if (step := line.get("step")) is not None
            and (value := line.get(name)) is not None
            and isfinite(value)
        }
        return sorted(found.items())

    def clip(self, label: str, result: EpisodeResult) -> Path | None:
        """Return the video of an episode; None if there is none or it is a link out of the folder.

        Args:
            label: label of the evaluation.
            result: the episode.
        """
        path = clip(self.folder, label, result.task, result.trial)
        return path if path.is_file() and not leaves_folder(self.folder.path, path) else None


def read_run(folder: RunFolder) -> RunRecord:
    """Read all files of a run that a report shows.

    Raises:
        CheckpointError: a file is damaged; the message names it.
    """
    shown = (folder.config, folder.recipe, folder.manifest, folder.summary, folder.metrics)
    require_inside(folder.path, shown)
    run = SavedRun(folder, folder.path)
    evaluations = run.evaluations()
    record = RunRecord(
        folder=folder,
        config=_yaml(folder.config) or {},
        recipe=_yaml(folder.recipe),
        manifest=_manifest(folder.manifest),
        summary=_json(folder.summary),
        metrics=run.metrics(),
        evaluations={label: each.episodes for label, each in evaluations.items()},
        protocols={label: each.protocol for label, each in evaluations.items()},
        benchmarks=read_benchmarks(folder.evaluations),
        doubts=(),
    )
    doubts = doubts_of(
        folder,
        config=record.config,
        manifest=record.manifest,
        summary=record.summary,
        metrics=record.metrics,
        evaluations=record.evaluations,
        conclusion=record.conclusion,
    )
    return replace(record, doubts=doubts)


def _yaml(path: Path) -> Values | None:
    if not path.exists():
        return None
    with damaged_on(path):
        values = read_yaml(path)
    if not isinstance(values, Mapping):
        raise damaged_error(path, "it holds no mapping of names to values")
    return values


def _json(path: Path) -> Values | None:
    return read_mapping(path) if path.exists() else None


def _manifest(path: Path) -> Values:
    values = _json(path) or {}
    for name in ("versions", "caveats", "task_groups"):
        if not isinstance(values.get(name, {}), Mapping):
            raise damaged_error(path, f"{name} can't be {values[name]!r:.80}")
    return values
