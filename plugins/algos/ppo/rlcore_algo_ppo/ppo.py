"""PPO: GAE, the clipped surrogate and a clipped critic."""

from __future__ import annotations

from rlcore_policy_gradient.advantage import gae
from rlcore_policy_gradient.loss import value_loss
from rlcore_policy_gradient.minibatch import Advantages, Minibatch
from rlcore_policy_gradient.surrogate import ClippedSurrogate
from torch import Tensor

from rlcore.contracts import metric
from rlcore.contracts.metric import Metric
from rlcore.contracts.protocols import Evaluation
from rlcore.contracts.trajectory import Trajectory
from rlcore_algo_ppo.settings import PPOConfig, needs


class PPO(ClippedSurrogate):
    """Proximal policy optimisation (Schulman et al. 2017, arXiv 1707.06347)."""

    def __init__(self, config: PPOConfig) -> None:
        super().__init__(config)
        self._config = config
        self.needs = needs(config)
        self.target_kl = config.target_kl

    def advantages(self, trajectory: Trajectory) -> Advantages:
        """Return GAE advantages and value targets of the whole batch."""
        config = self._config
        return gae(
            trajectory,
            reward_type=config.reward_type,
            gamma=config.gamma,
            gae_lambda=config.gae_lambda,
            bootstrap_type=config.bootstrap_type,
            normalize=config.normalize_advantages,
            per_task=config.normalize_among == "task",
        )

    def trains_policy(self, update: int) -> bool:
        """Return false for the first `critic_warmup_updates` updates, which train only the critic:
        advantages from an untrained critic are noise."""
        return update >= self._config.critic_warmup_updates

    def critic_suffices(self, trajectory: Trajectory, advantages: Advantages) -> bool:
        """Return whether the critic explained `critic_warmup_explained_variance` of the variance of
        its targets, before it learned from them; false if that is None, or the targets are equal.
        """
        least = self._config.critic_warmup_explained_variance
        if least is None:
            return False
        values = trajectory.values
        valid = advantages.valid
        if values.shape[-1] != valid.shape[-1]:
            valid = valid.any(-1, keepdim=True)
        explained = metric.explained_variance(values, advantages.returns, valid).value(1)
        return explained >= least  # NaN if the targets are equal

    def loss(self, now: Evaluation, batch: Minibatch) -> tuple[Tensor, dict[str, Metric]]:
        """Return `policy + value_coef * value - entropy_bonus * H + kl_beta * KL(reference)` and
        metrics."""
        policy, metrics = self.surrogate(now, batch)
        value, value_metrics = value_loss(
            values=now.values,
            old_values=batch.old_values,
            returns=batch.returns,
            weights=batch.weights.value,
            value_clip=self._config.value_clip,
            huber_delta=self._config.huber_delta,
        )
        return policy + self._config.value_coef * value, {**metrics, **value_metrics}
