"""The algorithm under test, and the batches the checks give it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from rlcore_policy_gradient.minibatch import Weights
from rlcore_policy_gradient.on_policy import OnPolicy
from rlcore_policy_gradient.samples import Samples, make_samples
from torch import Tensor

from rlcore.config.schema import ActorConfig
from rlcore.contracts.metric import Metric
from rlcore.contracts.protocols import Algorithm, Evaluation
from rlcore.contracts.specs import AlgorithmNeeds
from rlcore.contracts.trajectory import Trajectory
from rlcore.learner.update import Learner
from rlcore.plugins.import_target import load_target
from rlcore_testing.conformance.base import require
from rlcore_testing.conformance.threads import OneThread
from rlcore_testing.conformance.trajectories import random_trajectory

CHUNKS, COLUMNS, ACTIONS, ENTRIES = 6, 8, 3, 2
BEST = 1.0  # the action a bandit is rewarded for
UPDATES = 20  # of it
DRIFT = 0.05  # of log-probs and values since the rollout


@dataclass
class Present(Evaluation):
    """What the policy says now of all P samples: leaves that gather gradients; entropy
    elementwise."""

    def gradients(self) -> dict[str, Tensor]:
        """Of the log-probs and values; zeros where none came."""
        leaves = {"logprobs": self.logprobs, "values": self.values}
        return {
            name: torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
            for name, leaf in leaves.items()
        }


class AlgorithmSubject(OneThread):
    """Makes algorithms and batches."""

    kind = "algorithm"

    def make(self, config: Any) -> Algorithm:
        """The algorithm as a policy worker makes it."""
        algorithm: Algorithm = load_target(self.component().target)(config)
        return algorithm

    @property
    def algorithm(self) -> OnPolicy:
        """One with a replay is asked for what all algorithms have."""
        return cast(OnPolicy, self.make(self.config()))

    def test_needs_are_those_its_spec_function_gave(self) -> None:
        needs = self.algorithm.needs
        self.require_told("algorithm.needs", AlgorithmNeeds, needs, before="workers")

    def learner_of(self, policy: Any, algorithm: OnPolicy, **facts: Any) -> Learner:
        """What trains a bandit with it."""
        actor = ActorConfig(micro_batch_size=16, global_batch_size=32)
        actor.optim.lr, actor.optim.value_lr = 0.05, 0.2
        return Learner(policy, algorithm, actor, self.config(), seed=0, **facts)

    def require_best(self, mean: float, *, plot: str) -> None:
        """Require that the mean action of a bandit has come near the best one."""
        require(
            abs(mean - BEST) < 0.7 * BEST,
            f"after {UPDATES} updates of a bandit its mean action went from 0 to {mean:.3f}, "
            f"expected it to come nearer to the best one, {BEST}",
            hint=f"plot {plot} of one update; look at signs first",
        )

    @property
    def value_width(self) -> int:
        """V of the policies it can train: 0, 1 or C."""
        if not self.algorithm.needs.values:
            return 0
        return ACTIONS if self.config().reward_type == "action_level" else 1

    @property
    def group_size(self) -> int:
        """G, or 0 where the algorithm needs no groups."""
        return int(self.config().group_size) if self.algorithm.needs.groups else 0

    def trajectory(self, *, seed: int = 0) -> Trajectory:
        """A random one, with two groups or more if the algorithm asks for them."""
        return random_trajectory(
            chunks=CHUNKS,
            columns=max(COLUMNS, 2 * self.group_size),
            actions=ACTIONS,
            entries=ENTRIES,
            value_width=self.value_width,
            group_size=self.group_size,
            seed=seed,
        )

    def samples(self) -> Samples:
        """A batch of training samples. The policy is its own reference where one is needed."""
        trajectory = self.trajectory()
        samples = make_samples(trajectory, self.algorithm.advantages(trajectory), self.config())
        if self.algorithm.needs.reference_logprobs:
            samples = replace(samples, reference_logprobs=samples.old_logprobs.clone())
        return samples

    def present(self, samples: Samples, *, drift: float = DRIFT) -> Present:
        """What the policy says now: what it said then, give or take `drift`."""
        random = torch.Generator().manual_seed(0)

        def moved(x: Tensor) -> Tensor:
            return (x + drift * torch.randn(x.shape, generator=random)).requires_grad_()

        entropy = torch.ones_like(samples.old_logprobs).requires_grad_()
        return Present(moved(samples.old_logprobs), moved(samples.old_values), entropy)

    def loss(
        self,
        samples: Samples,
        present: Present,
        places: Tensor | None = None,
        weights: Weights | None = None,
        entropy: Tensor | None = None,
    ) -> tuple[Tensor, dict[str, Metric]]:
        """The loss of the samples at `places` (all that are trained on)."""
        places = samples.trained.nonzero().squeeze(1) if places is None else places
        now = Evaluation(
            logprobs=present.logprobs[places],
            values=present.values[places],
            entropy=(present.entropy if entropy is None else entropy)[places],
        )
        batch = samples if weights is None else replace(samples, weights=weights)
        return self.algorithm.loss(now, batch[places])
