"""Write and read `sft.json` and `control.json`: results of supervised training, and the run they
belong to.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

HISTORIES = ("sft", "control")
"""Names of the files, and of the metrics of what is in them."""
LOSSES = ("train_loss", "val_loss")


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
