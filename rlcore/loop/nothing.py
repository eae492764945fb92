"""Updates that came to nothing, in words. They go on: a sparse reward may need a few until somebody
succeeds. But nobody should find out after a night that nothing was learned."""

from __future__ import annotations

from collections.abc import Mapping


def nothing_learned(update: int, metrics: Mapping[str, float]) -> str | None:
    """What to say of an update that learned nothing; None of others.

    Args:
        update: its number, from 1.
        metrics: of it, by their canonical names.
    """
    steps = metrics["train/actor/optimizer_steps"]
    if not steps:
        reason = "the policy drifted by more than algorithm.target_kl before its first step"
        if not metrics["train/actor/trained_samples"]:
            reason = "there was no sample to train on (train/actor/trained_fraction)"
        return f"update {update} learned nothing: {reason}"
    if metrics["train/actor/zero_gradient_steps"] == steps:
        return (
            f"update {update} learned nothing: all gradients are zero; advantages may all be 0, "
            "because all episodes that are compared end the same way "
            f"(success {metrics['env/success_once']:.2f})"
        )
    if not metrics["train/actor/weights_moved"]:
        return (
            f"update {update} moved no weight: its steps are too small for the weights' precision "
            "(actor.optim.lr)"
        )
    return None
