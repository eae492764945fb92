"""Lower the coefficients that hold a policy near its start, as training goes on."""

from __future__ import annotations

from rlcore_policy_gradient.settings import PolicyGradientConfig


def decay(config: PolicyGradientConfig, update: int, total_updates: int | None) -> float:
    """Return the factor on `kl_beta` and the imitation term in an update, in [0, 1].

    With the share s = update / total_updates of training that is done, the factor is 1 until
    `decay_start`, then (decay_end - s) / (decay_end - decay_start), and 0 from `decay_end` on. So
    the policy is held where it began while the critic is poor, and is free afterwards: constant to
    a third of training and 0 at its end in github.com/alstar8/offline-supervision-vla-rl.

    Args:
        update: number of updates done before.
        total_updates: number of updates of the run; needed if `decay_start` is set.
    """
    start = config.decay_start
    if start is None:
        return 1.0
    assert total_updates is not None  # OnPolicyNeeds.limited_updates asks for it
    share = update / total_updates
    return min(1.0, max(0.0, (config.decay_end - share) / (config.decay_end - start)))
