"""Provide metrics under the names of RLinf's documentation too."""

from __future__ import annotations

OTHER_NAMES: dict[str, str] = {
    "actor/loss": "train/actor/policy_loss",
    "actor/value_loss": "train/critic/value_loss",
    "actor/grad_norm": "train/actor/grad_norm",
    "actor/approx_kl": "train/actor/approx_kl",
    "train/actor/approx_kl_k3": "train/actor/approx_kl",
    "actor/pg_clipfrac": "train/actor/clip_fraction",
    "actor/value_clip_ratio": "train/critic/value_clip_ratio",
    "train/entropy_loss": "train/actor/entropy",
    "train/loss": "train/actor/total_loss",
}
"""`{name in RLinf's documentation: name in rlcore}`."""


def other_names(metrics: dict[str, float]) -> dict[str, float]:
    """Return the metrics that RLinf names differently, under RLinf's names."""
    return {other: metrics[name] for other, name in OTHER_NAMES.items() if name in metrics}
