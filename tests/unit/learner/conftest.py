"""A policy of two linear layers and an actor-critic algorithm, for the learner's tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from rlcore_policy_gradient.advantage import gae
from rlcore_policy_gradient.loss import value_loss
from rlcore_policy_gradient.minibatch import Advantages
from rlcore_policy_gradient.settings import PolicyGradientConfig
from rlcore_policy_gradient.surrogate import ClippedSurrogate
from torch import nn

from rlcore.config.schema import ActorConfig, OptimConfig
from rlcore.contracts.protocols import Evaluation
from rlcore.contracts.specs import AlgorithmNeeds, PolicySpec
from rlcore.contracts.trajectory import Trajectory
from rlcore.learner.update import Learner


class LinearPolicy(nn.Module):
    """Unit-free Gaussian actions around a linear map of 4 features; a linear critic."""

    def __init__(self, actions: int = 3, entries: int = 2, value_width: int = 1) -> None:
        super().__init__()
        random = torch.Generator().manual_seed(0)
        self.mean = nn.Linear(4, actions * entries)
        self.value = nn.Linear(4, value_width)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(0.3 * torch.randn(parameter.shape, generator=random))
        self.actions = actions
        self.entries = entries
        self.log_std = nn.Parameter(torch.tensor(0.1))
        self.evaluated: list[int] = []
        self.spec = PolicySpec(
            "linear", 0, 4, entries, actions, actions, value_width, sft_objective="flow_matching"
        )

    def evaluate(self, inputs, replay) -> Evaluation:
        features = inputs["features"]
        self.evaluated.append(len(features))
        mean = self.mean(features).view(-1, self.actions, self.entries)
        error = (replay["action"].float() - mean) / self.log_std.exp()
        logprobs = -0.5 * error.square() - self.log_std
        entropy = (self.log_std + 1.4).expand_as(logprobs)  # elementwise
        return Evaluation(logprobs, self.value(features), entropy)

    def sft_loss(self, inputs, actions, mask, keys) -> torch.Tensor:
        noise = torch.from_numpy(keys.normal("noise", (4,))) * 0.01
        mean = self.mean(inputs["features"] + noise).view(-1, self.actions, self.entries)
        return ((mean - actions).square().sum(-1) * mask).sum(-1) / mask.sum(-1)

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        return {
            "policy": [*self.mean.parameters(), self.log_std],
            "value": list(self.value.parameters()),
        }


@dataclass
class ToyConfig(PolicyGradientConfig):
    critic_warmup_updates: int = 0
    target_kl: float | None = None
    exact_logprobs: bool = False  # most tests train on log-probs that are a little off


class ToyActorCritic(ClippedSurrogate):
    """GAE and a clipped critic."""

    def __init__(self, config: ToyConfig) -> None:
        super().__init__(config)
        self._config = config
        self.target_kl = config.target_kl
        self.needs = AlgorithmNeeds(
            values=True,
            reference_logprobs=config.kl_beta != 0,
            exact_logprobs=config.exact_logprobs,
        )

    def trains_policy(self, update: int) -> bool:
        return update >= self._config.critic_warmup_updates

    def advantages(self, trajectory: Trajectory) -> Advantages:
        config = self._config
        return gae(
            trajectory,
            reward_type=config.reward_type,
            gamma=config.gamma,
            gae_lambda=0.9,
            bootstrap_type="standard",
            normalize=config.normalize_advantages,
        )

    def loss(self, now, batch):
        policy, metrics = self.surrogate(now, batch)
        value, more = value_loss(
            values=now.values,
            old_values=batch.old_values,
            returns=batch.returns,
            weights=batch.weights.value,
            value_clip=0.2,
            huber_delta=1.0,
        )
        return policy + value, {**metrics, **more}


@dataclass
class Bench:
    """A learner with its parts."""

    learner: Learner
    policy: LinearPolicy
    algorithm: ToyActorCritic
    actor: ActorConfig
    config: ToyConfig


@pytest.fixture
def bench() -> Callable[..., Bench]:
    """`bench(algorithm settings, actor=..., optim=..., seed=..., value_width=...)`."""

    def make(*, actor=None, optim=None, seed=0, value_width=1, **settings: Any) -> Bench:
        config = ToyConfig(name="toy", **settings)
        policy = LinearPolicy(value_width=value_width)
        algorithm = ToyActorCritic(config)
        actor_config = ActorConfig(optim=OptimConfig(**(optim or {})), **(actor or {}))
        learner = Learner(policy, algorithm, actor_config, config, seed=seed)
        return Bench(learner, policy, algorithm, actor_config, config)

    return make


@pytest.fixture
def acted(play) -> Callable[..., Trajectory]:
    """A random trajectory whose old log-probs and values are near those of `policy`."""

    def make(policy: LinearPolicy, *, gap: float = 0.1, **settings: Any) -> Trajectory:
        trajectory = play(value_width=policy.spec.value_dim, **settings)
        with torch.no_grad():
            now = policy.evaluate(trajectory.inputs, trajectory.replay)
        policy.evaluated.clear()
        random = torch.Generator().manual_seed(1)
        made = trajectory.sample_index >= 0
        for name, array in (("logprobs", now.logprobs), ("values", now.values)):
            noise = gap * torch.randn(array.shape, generator=random)
            getattr(trajectory, name)[made] = (array + noise)[trajectory.sample_index[made]]
        return trajectory

    return make
