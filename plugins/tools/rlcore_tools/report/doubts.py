"""Find files of a run that it did not write: of another run, or changed since.

A readable file may still be another run's, copied here by mistake. A run's files refer to each
other, so they are compared. Knows nothing of how doubts are shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rlcore.config.schema_tree import find
from rlcore.files.damaged_files import read_json
from rlcore.results.statistics import success_rate
from rlcore.results.summary import DIGITS
from rlcore.results.tables import EpisodeResult, comparable, success_by_start
from rlcore.run_folder.folder import RunFolder
from rlcore.run_folder.history import read_history
from rlcore.run_folder.sft_record import HISTORIES, unlike_log
from rlcore.run_folder.state import STATE, dependencies, read_facts

Values = Mapping[str, Any]
Evaluations = Mapping[str, Sequence[EpisodeResult]]
SIDES = {"before": "success_before", "control": "success_control"}
"""Keys of the summary by the labels of the evaluations they are the rates of."""


def doubts_of(
    folder: RunFolder,
    *,
    config: Values,
    manifest: Values,
    summary: Values | None,
    metrics: Sequence[Values],
    evaluations: Evaluations,
    conclusion: str | None,
) -> list[str]:
    """A sentence for each file that is not what the others say that it is.

    Args:
        folder: of the run.
        config, manifest, summary, metrics, evaluations: what its files hold.
        conclusion: label of the evaluation it ended with.

    Raises:
        CheckpointError: a file that is looked at is damaged.
    """
    found = [*_since_checkpoint(folder), *_of_another_seed(config, manifest, summary)]
    found += _of_other_rates(summary or {}, evaluations, conclusion)
    for name in HISTORIES:
        path = folder.path / f"{name}.json"
        if path.is_file() and (fault := unlike_log(read_json(path), metrics, name)):
            found.append(f"{path.name} {fault}")
    return found


def _since_checkpoint(folder: RunFolder) -> Iterator[str]:
    """What is not as the latest checkpoint was written with."""
    latest = read_history(folder.checkpoints).latest
    path = folder.checkpoints / (latest or "") / STATE
    if latest is None or not path.is_file():
        return
    for name, extent in dependencies(path, read_facts(path)["state"]).items():
        fault = extent.fault(folder.path / name)
        if fault is not None:
            yield f"{name} {fault}: it is not the one that {latest} was written with"


def _of_another_seed(config: Values, manifest: Values, summary: Values | None) -> Iterator[str]:
    seed = find(config, "runner.seed")
    others = {"manifest.json": find(manifest, "seeds.root"), "summary.json": find(summary, "seed")}
    for name, other in others.items():
        if None not in (seed, other) and other != seed:
            yield f"{name} is of a run with seed {other}, config.yaml has seed {seed}"


def _of_other_rates(
    summary: Values, evaluations: Evaluations, conclusion: str | None
) -> Iterator[str]:
    for label, name in {**SIDES, **({conclusion: "success_after"} if conclusion else {})}.items():
        said, rows = summary.get(name), evaluations.get(label)
        if not isinstance(said, Mapping) or not rows or not comparable(rows):
            continue
        rate, n, _, _ = success_rate([*success_by_start(rows).values()])
        if (said.get("rate"), said.get("n")) != (round(rate, DIGITS), n):
            yield (
                f"summary.json and eval/{label}.parquet are of different runs: {said.get('rate')} "
                f"of {said.get('n')} episodes succeeded there, {round(rate, DIGITS)} of {n} here"
            )
