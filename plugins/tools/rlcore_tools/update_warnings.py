"""Warn when an update changed nothing, moved the policy too far, or ran out of memory.

Training continues, because a sparse reward may take several updates and a policy may recover. The
warning lets the user see the problem early.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # every command imports this module with the plugin, so imports must be cheap
    from rlcore.config.schema import AlgorithmConfig

MOST_KL = 0.5
MOST_CLIPPED = 0.5
"""Largest approximate KL and clipped fraction of an update without a warning. Usual values are a KL
of 0.01 to 0.05 and a clipped fraction of 0.1 to 0.3; a policy still learns with a KL of 0.1 to 0.2,
see docs/algorithms.md."""


def nothing_learned(
    update: int, metrics: Mapping[str, float], algorithm: AlgorithmConfig
) -> str | None:
    """Return a warning if an update learned nothing, else None.

    An algorithm that still waits for `algorithm.start` decisions in its replay gets no warning.

    Args:
        update: number of the update, from 1.
        metrics: metrics of the update, by their canonical names.
        algorithm: settings of the algorithm.
    """
    steps = metrics["train/actor/optimizer_steps"]
    start = vars(algorithm).get("start", 0)
    if not steps and metrics.get("rollout/replay_decisions", start) < start:
        return None
    if not steps:
        reason = "the policy drifted by more than algorithm.target_kl before its first step"
        # an algorithm with batches of its own reports no fraction of the rollout
        samples = metrics["train/actor/trained_samples"]
        if not metrics.get("train/actor/trained_fraction", samples):
            reason = "there was no sample to train on (train/actor/trained_fraction)"
        return f"update {update} learned nothing: {reason}"
    if metrics["train/actor/zero_gradient_steps"] == steps:
        return (
            f"update {update} learned nothing: all gradients are zero; advantages may all be 0, "
            "because all episodes that are compared end the same way"
        )
    if not metrics["train/actor/weights_moved"]:
        return (
            f"update {update} moved no weight: its steps are too small for the weights' precision "
            "(actor.optim.lr)"
        )
    return None


def moved_far(update: int, metrics: Mapping[str, float], algorithm: AlgorithmConfig) -> str | None:
    """Return a warning if an update moved the policy so far that it may be broken, else None.

    Algorithms that report neither KL nor clipped fraction never get a warning.

    Args:
        update: number of the update, from 1.
        metrics: metrics of the update, by their canonical names.
        algorithm: settings of the algorithm.
    """
    kl = metrics.get("train/actor/approx_kl", 0.0)
    clipped = metrics.get("train/actor/clip_fraction", 0.0)
    if not (kl > MOST_KL or clipped > MOST_CLIPPED):
        return None
    limit = ", algorithm.target_kl=0.1" if vars(algorithm).get("target_kl", 0) is None else ""
    return (
        f"update {update} moved the policy far: KL {kl:.2g}, {clipped:.0%} of the ratios clipped "
        f"(usual are below 0.1 and 30%), so success may fall; try a lower actor.optim.lr, fewer "
        f"algorithm.update_epoch, a larger actor.global_batch_size{limit}, or less noise of the "
        "model; this warning is printed once per run"
    )


def out_of_memory(update: int, metrics: Mapping[str, float]) -> str | None:
    """Return a warning if an update's micro-batches did not fit into memory, else None."""
    fits = metrics.get("train/actor/micro_batch_size")
    if fits is None:
        return None
    return (
        f"update {update} ran out of memory and was repeated with smaller micro-batches: the run "
        f"continues with actor.micro_batch_size={fits:.0f}"
    )
