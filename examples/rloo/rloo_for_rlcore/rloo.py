"""The algorithm."""

from rlcore_policy_gradient.group_relative import group_relative
from rlcore_policy_gradient.minibatch import Advantages
from rlcore_policy_gradient.surrogate import ClippedSurrogate

from rlcore.contracts.trajectory import Trajectory
from rloo_for_rlcore.settings import RLOOConfig, needs


class RLOO(ClippedSurrogate):
    """REINFORCE leave-one-out (Ahmadian et al. 2024, arXiv 2402.14740)."""

    loss = ClippedSurrogate.surrogate

    def __init__(self, config: RLOOConfig) -> None:
        super().__init__(config)
        self._size = config.group_size
        self.needs = needs(config)

    def advantages(self, trajectory: Trajectory) -> Advantages:
        """A_i = s_i - mean_{j != i} s_j = (s_i - mean_G s) G / (G - 1)."""
        centred = group_relative(trajectory, group_size=self._size, divide_by_std=False)
        scaled = centred.advantages * self._size / (self._size - 1)
        return Advantages(scaled, centred.returns, centred.valid)
