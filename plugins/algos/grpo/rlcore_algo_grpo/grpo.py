"""GRPO: group-relative advantages and the clipped surrogate."""

from __future__ import annotations

from rlcore_policy_gradient.group_relative import group_relative
from rlcore_policy_gradient.minibatch import Advantages, Minibatch
from rlcore_policy_gradient.surrogate import ClippedSurrogate
from torch import Tensor

from rlcore.contracts.metric import Metric
from rlcore.contracts.protocols import Evaluation
from rlcore.contracts.trajectory import Trajectory
from rlcore_algo_grpo.settings import GRPOConfig, needs


class GRPO(ClippedSurrogate):
    """Group-relative policy optimisation (Shao et al. 2024, arXiv 2402.03300), with the group
    filter that DAPO adds (Yu et al. 2025, arXiv 2503.14476).

    Raises:
        ConfigError: settings that contradict each other; see
            :func:`rlcore_algo_grpo.settings.check`.
    """

    def __init__(self, config: GRPOConfig) -> None:
        super().__init__(config)
        self._config = config
        self.needs = needs(config)

    def advantages(self, trajectory: Trajectory) -> Advantages:
        """Return group-relative advantages of the whole batch.

        They are computed before sharding, so that the members of a group may go to different ranks.
        """
        config = self._config
        return group_relative(
            trajectory,
            group_size=config.group_size,
            divide_by_std=config.normalize_advantages,
            bounds=self.needs.group_filter,
        )

    def loss(self, now: Evaluation, batch: Minibatch) -> tuple[Tensor, dict[str, Metric]]:
        """Return `policy - entropy_bonus * H + kl_beta * KL(reference)` and metrics; values are
        ignored."""
        return self.surrogate(now, batch)
