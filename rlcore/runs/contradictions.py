"""Find files in a run folder that belong to another run or changed after the run wrote them.

A file that is valid in itself may have been copied from another run by mistake. Files of a run
repeat some of each other's values (seed, success rates, sizes), so these values are compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rlcore.config.schema_tree import find
from rlcore.files.damaged_files import read_json
from rlcore.runs.folder import RunFolder
from rlcore.runs.history import read_history
from rlcore.runs.sft_record import HISTORIES, log_difference
from rlcore.runs.state import STATE, dependencies, read_facts
from rlcore.runs.statistics import success_rate
from rlcore.runs.summary import DIGITS
from rlcore.runs.tables import EpisodeResult, comparable, success_by_start

Values = Mapping[str, Any]
Evaluations = Mapping[str, Sequence[EpisodeResult]]
SIDES = {"before": "success_before", "control": "success_control"}
"""Keys of success rates in the summary, by the label of the evaluation that they come from."""


def find_contradictions(
    folder: RunFolder,
    *,
    config: Values,
    manifest: Values,
    summary: Values | None,
    metrics: Sequence[Values],
    evaluations: Evaluations,
    final_label: str | None,
) -> list[str]:
    """Return one sentence for each file that contradicts the run's other files.

    Args:
        folder: the run folder.
        config, manifest, summary, metrics, evaluations: contents of the run's files; evaluations
            by label.
        final_label: label of the run's final evaluation; None before it.

    Raises:
        CheckpointError: a file that is read here is damaged.
    """
    sentences = [*_changed_since_checkpoint(folder), *_seed_mismatches(config, manifest, summary)]
    sentences += _rate_mismatches(summary or {}, evaluations, final_label)
    for name in HISTORIES:
        path = folder.path / f"{name}.json"
        if path.is_file() and (fault := log_difference(read_json(path), metrics, name)):
            sentences.append(f"{path.name} {fault}")
    return sentences


def _changed_since_checkpoint(folder: RunFolder) -> Iterator[str]:
    """Yield a sentence for each file that the latest checkpoint depends on and that changed."""
    latest = read_history(folder.checkpoints).latest
    path = folder.checkpoints / (latest or "") / STATE
    if latest is None or not path.is_file():
        return
    for name, extent in dependencies(path, read_facts(path)["state"]).items():
        fault = extent.fault(folder.path / name)
        if fault is not None:
            yield f"{name} {fault}: it is not the one that {latest} was written with"


def _seed_mismatches(config: Values, manifest: Values, summary: Values | None) -> Iterator[str]:
    seed = find(config, "runner.seed")
    seeds = {"manifest.json": find(manifest, "seeds.root"), "summary.json": find(summary, "seed")}
    for name, other_seed in seeds.items():
        if None not in (seed, other_seed) and other_seed != seed:
            yield f"{name} is of a run with seed {other_seed}, config.yaml has seed {seed}"


def _rate_mismatches(
    summary: Values, evaluations: Evaluations, final_label: str | None
) -> Iterator[str]:
    for label, name in {**SIDES, **({final_label: "success_after"} if final_label else {})}.items():
        figures = summary.get(name)
        rows = evaluations.get(label)
        if not isinstance(figures, Mapping) or not rows or not comparable(rows):
            continue
        rate, n, _, _ = success_rate([*success_by_start(rows).values()])
        rate = round(rate, DIGITS)
        if (figures.get("rate"), figures.get("n")) != (rate, n):
            yield (
                f"summary.json and eval/{label}.parquet are of different runs: success "
                f"{figures.get('rate')} of {figures.get('n')} episodes, and {rate} of {n}"
            )
