"""Write and read `sft.json` and `control.json`: results of supervised training, and the run they
belong to.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rlcore.contracts.errors import CheckpointError
from rlcore.files.damaged_files import read_json
from rlcore.run_folder.trackers import read_metrics

HISTORIES = ("sft", "control")
"""Names of the files, and of the metrics of what is in them."""
LOSSES = ("train_loss", "val_loss")


def check_history(path: Path, log: Path) -> None:
    """Refuse a history that is not the one that was logged: a resume may log it once more.

    Args:
        path: of the history; a missing one is not checked here.
        log: the run's `metrics.jsonl`; a garbled one proves nothing.

    Raises:
        CheckpointError: damaged, or of another run.
    """
    if not path.is_file():
        return
    try:
        metrics = read_metrics(log)
    except (OSError, ValueError):
        return
    fault = unlike_log(read_json(path), metrics, path.stem)
    if fault is not None:
        raise CheckpointError(
            f"{path} {fault}",
            hint=f"put back the run's own, or remove {path.with_suffix('')}: it is made again",
        )


def unlike_log(history: Any, metrics: Sequence[Mapping[str, Any]], name: str) -> str | None:
    """Describe how a history differs from the metrics that were logged of it; None if it does
    not.

    Args:
        history: its losses are lists of (optimizer step, loss).
        metrics: lines of `metrics.jsonl`.
        name: of :data:`HISTORIES`.
    """
    for kind in LOSSES:
        metric = f"{name}/{kind}"
        logged = [(line["step"], line[metric]) for line in metrics if metric in line]
        try:
            told = [(step, loss if math.isfinite(loss) else None) for step, loss in history[kind]]
        except (KeyError, TypeError, ValueError):
            return f"holds no {kind} of supervised training"
        if logged != told[: len(logged)]:  # a killed run may not have logged all of it
            return f"is not what metrics.jsonl has of it: its {kind} is another"
    return None
