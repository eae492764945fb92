"""Adapt a learning rate so that the steps of a policy have a desired size."""

from __future__ import annotations

STEP = 1.5
LOWEST = 0.01
HIGHEST = 10.0


def adapted_factor(factor: float, *, kl: float, desired: float) -> float:
    """Return the next factor on the policy's learning rate, in [LOWEST, HIGHEST].

        KL > 2 desired: factor / 1.5        0 < KL < desired / 2: factor * 1.5

    This is the adaptive schedule of rsl_rl (github.com/leggedrobotics/rsl_rl, `PPO.update`), which
    bounds the rate itself. A KL of 0 changes nothing, because the policy did not move, as in GRPO
    when all groups failed; nor does a KL of NaN.

    Args:
        factor: the present factor.
        kl: approximate KL of a minibatch from the policy that acted to the present one.
        desired: the KL that is aimed at.
    """
    if kl > 2.0 * desired:
        return max(factor / STEP, LOWEST)
    if 0.0 < kl < desired / 2.0:
        return min(factor * STEP, HIGHEST)
    return factor
