"""Check `sft.json` and `control.json`, the records of supervised training, against the metrics."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

HISTORIES = ("sft", "control")
"""Stems of the files' names, which are also the prefixes of their metrics."""
LOSSES = ("train_loss", "val_loss")


def log_difference(history: Any, metrics: Sequence[Mapping[str, Any]], name: str) -> str | None:
    """Describe how the losses in a history differ from the logged ones; None if they agree.

    Args:
        history: contents of the file: for each of :data:`LOSSES` a list of (optimizer step, loss).
        metrics: lines of `metrics.jsonl`.
        name: which file it is, one of :data:`HISTORIES`.
    """
    for kind in LOSSES:
        metric = f"{name}/{kind}"
        logged = [(line["step"], line[metric]) for line in metrics if metric in line]
        try:
            recorded = [
                (step, loss if math.isfinite(loss) else None) for step, loss in history[kind]
            ]
        except (KeyError, TypeError, ValueError):
            return f"holds no {kind} of supervised training"
        if logged != recorded[: len(logged)]:  # a killed run may have logged only the first losses
            return f"is not what metrics.jsonl has of it: its {kind} is another"
    return None
