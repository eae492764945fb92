"""Tell whether an evaluation draws random numbers, so that passes over the same starts differ."""

from __future__ import annotations

from rlcore.config.schema import RunConfig
from rlcore.contracts.specs import AlgorithmNeeds, PolicySpec


def evaluation_draws(
    config: RunConfig, policy: PolicySpec | None, needs: AlgorithmNeeds | None
) -> bool:
    """Return whether decisions of the run's evaluations depend on their random keys.

    Args:
        config: the configuration.
        policy: spec of the policy; None: not known, it counts as one that draws.
        needs: needs of the algorithm whose networks act; None: no algorithm is chosen.
    """
    head_draws = needs is not None and needs.draws
    explores = not config.rollout.eval_deterministic
    return policy is None or policy.starts_from_noise or head_draws or explores
