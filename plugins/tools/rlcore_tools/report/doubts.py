"""Find files of a run that it did not write: of another run, or changed since.

A readable file may still be another run's, copied here by mistake. A run's files refer to each
other, so they are compared. Knows nothing of how doubts are shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from rlcore.config.schema_tree import find
from rlcore.files.damaged_files import read_json
from rlcore.results.statistics import success_rate
from rlcore.results.summary import DIGITS
from rlcore.results.tables import comparable, success_by_start
from rlcore.run_folder.folder import RunFolder
from rlcore.run_folder.history import read_history
from rlcore.run_folder.sft_record import HISTORIES, unlike_log
from rlcore.run_folder.state import STATE, read_facts, relied_on

if TYPE_CHECKING:
    from rlcore_tools.report.record import RunRecord

SIDES = {"before": "success_before", "control": "success_control"}
"""Keys of the summary by the labels of the evaluations they are the rates of."""


def doubts_of(record: RunRecord) -> list[str]:
    """A sentence for each file that is not what the others say that it is.

    Args:
        record: what the files of a run hold.

    Raises:
        CheckpointError: a file that is looked at is damaged.
    """
    found = [*_since_checkpoint(record.folder), *_of_another_seed(record)]
    found += _of_other_rates(record)
    for name in HISTORIES:
        path = record.folder.path / f"{name}.json"
        if path.is_file() and (fault := unlike_log(read_json(path), record.metrics, name)):
            found.append(f"{path.name} {fault}")
    return found


def _since_checkpoint(folder: RunFolder) -> Iterator[str]:
    """What is not as the latest checkpoint was written with."""
    latest = read_history(folder.checkpoints).latest
    path = folder.checkpoints / (latest or "") / STATE
    if latest is None or not path.is_file():
        return
    for name, extent in relied_on(path, read_facts(path)["state"]).items():
        fault = extent.fault(folder.path / name)
        if fault is not None:
            yield f"{name} {fault}: it is not the one that {latest} was written with"


def _of_another_seed(record: RunRecord) -> Iterator[str]:
    seed = find(record.config, "runner.seed")
    root, concluded = find(record.manifest, "seeds.root"), find(record.summary, "seed")
    others = {"manifest.json": root, "summary.json": concluded}
    for name, other in others.items():
        if None not in (seed, other) and other != seed:
            yield f"{name} is of a run with seed {other}, config.yaml has seed {seed}"


def _of_other_rates(record: RunRecord) -> Iterator[str]:
    ended = {record.conclusion: "success_after"} if record.conclusion else {}
    for label, name in {**SIDES, **ended}.items():
        said, rows = find(record.summary, name), record.evaluations.get(label)
        if not isinstance(said, Mapping) or not rows or not comparable(rows):
            continue
        rate, n, _, _ = success_rate([*success_by_start(rows).values()])
        if (said.get("rate"), said.get("n")) != (round(rate, DIGITS), n):
            yield (
                f"summary.json and eval/{label}.parquet are of different runs: {said.get('rate')} "
                f"of {said.get('n')} episodes succeeded there, {round(rate, DIGITS)} of {n} here"
            )
