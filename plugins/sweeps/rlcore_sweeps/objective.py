"""Read what a finished job of a sweep returns to its sweeper: numbers of its summary or metrics."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlcore.config.schema_tree import leaves
from rlcore.contracts.errors import ConfigError, choices_message
from rlcore.files.damaged_files import damaged_on, read_mapping
from rlcore.files.reading import read_text
from rlcore.files.typed import as_type
from rlcore.runs.folder import METRICS
from rlcore_sweeps.job_record import JobFailedError, JobRecord

SUMMARY = "summary.json"
SUCCESS = "success_after.rate"
METRIC = "/"
"""Separator in names of metrics; entries of summary.json never contain it."""


def is_finished(run: Path) -> bool:
    """Return whether a run is complete: its summary is the last file that it writes."""
    return (run / SUMMARY).is_file()


def objective_of(record: JobRecord, paths: Sequence[str]) -> float | tuple[float, ...] | None:
    """Return the objective of a finished job, which its sweeper optimises.

    Args:
        record: record of the job.
        paths: entries of summary.json ("success_after.rate"), or metrics, whose last logged value
            is used ("eval/success_once"); none: the success rate after training.

    Returns:
        one number, or a tuple for several paths; None if `paths` is empty and the success rate was
        not measured.

    Raises:
        JobFailedError: the job is not done.
        ConfigError: the summary and the metrics have no such number.
    """
    if record.state != "done":
        raise JobFailedError(f"job {record.number} {record.label}: {record.error or record.state}")
    file = Path(record.folder) / SUMMARY
    if not paths and not file.is_file():
        return None
    numbers = (leaf for leaf in leaves(read_mapping(file)) if isinstance(leaf[1], (int, float)))
    available = {path: float(value) for path, value in numbers}
    available |= _last_metrics(Path(record.folder), paths)
    values = tuple(available.get(path) for path in paths or (SUCCESS,))
    if not paths and values[0] is None:
        return None
    for path, value in zip(paths, values, strict=False):
        if value is None:
            raise ConfigError(
                f"sweep.objective: {file} has no number {path!r}{choices_message(path, available)}"
            )
    objectives = tuple(value for value in values if value is not None)
    return objectives if len(objectives) > 1 else objectives[0]


def _last_metrics(run: Path, names: Sequence[str]) -> dict[str, float]:
    """Return the last logged value of each metric in `names` that was logged."""
    last_values: dict[str, float] = {}
    if any(METRIC in name for name in names):
        with damaged_on(run / METRICS):
            for line in read_text(run / METRICS).splitlines():
                values = as_type(dict[str, Any], json.loads(line))
                last_values |= {name: value for name, value in values.items() if name in names}
    return last_values
