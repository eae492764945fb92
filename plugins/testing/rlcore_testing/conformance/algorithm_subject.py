"""Provide the algorithm under test, and the batches that checks pass to it."""

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
from rlcore.contracts.trajectory import Trajectory
from rlcore.learner.update import Learner
from rlcore.plugins.import_target import load_target
from rlcore_testing.conformance.threads import OneThread
from rlcore_testing.conformance.trajectories import random_trajectory

ACTIONS = 3  # actions of a chunk
COLUMNS = 8
BEST = 1.0  # the action a bandit is rewarded for
UPDATES = 20  # number of updates on the bandit
DRIFT = 0.05  # std of the change of log-probs and values since the rollout


@dataclass
class Present(Evaluation):
    """The current policy's evaluation of all P samples, as leaf tensors that collect gradients.

    The entropy is elementwise.
    """

    def gradients(self) -> dict[str, Tensor]:
        """Return the gradients of log-probs and values; zeros if the loss does not use them."""
        leaves = {"logprobs": self.logprobs, "values": self.values}
        return {
            name: torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
            for name, leaf in leaves.items()
        }


class AlgorithmSubject(OneThread):
    """Base of the checks of algorithms: builds algorithms and batches."""

    kind = "algorithm"

    def make(self, config: Any) -> Algorithm:
        """Build the algorithm as a policy worker does."""
        algorithm: Algorithm = load_target(self.component().target)(config)
        return algorithm

    @property
    def algorithm(self) -> OnPolicy:
        """The algorithm, typed as on-policy; for one with a replay only common members are used."""
        return cast(OnPolicy, self.make(self.config()))

    def test_needs_are_those_its_spec_function_gave(self) -> None:
        self.require_planned("algorithm.needs", self.algorithm.needs)

    def learner_of(self, policy: Any, algorithm: OnPolicy, **facts: Any) -> Learner:
        """Return a learner that trains a bandit with the algorithm."""
        actor = ActorConfig(micro_batch_size=16, global_batch_size=32)
        actor.optim.lr = 0.05
        actor.optim.value_lr = 0.2
        return Learner(
            policy, algorithm, actor, self.config(), seed=0, total_updates=UPDATES, **facts
        )

    def require_best(self, mean: float, *, plot: str) -> None:
        """Require that a bandit's mean action is within 70% of the initial distance of the best."""
        assert abs(mean - BEST) < 0.7 * BEST, (
            f"after {UPDATES} updates of a bandit its mean action went from 0 to {mean:.3f}, "
            f"expected it to come nearer to the best one, {BEST}\n  hint: plot {plot} of one "
            "update; look at signs first"
        )

    @property
    def value_width(self) -> int:
        """V, the number of values per decision that the algorithm needs: 0, 1 or C."""
        per_action = self.config().reward_type == "action_level"
        return self.algorithm.needs.values * (ACTIONS if per_action else 1)

    @property
    def group_size(self) -> int:
        """G, the size of a group, or 0 if the algorithm needs no groups."""
        return int(self.config().group_size) if self.algorithm.needs.groups else 0

    def trajectory(self) -> Trajectory:
        """Return a random trajectory, with at least two groups if the algorithm needs groups."""
        return random_trajectory(
            columns=max(COLUMNS, 2 * self.group_size),
            actions=ACTIONS,
            value_width=self.value_width,
            group_size=self.group_size,
        )

    def samples(self) -> Samples:
        """Return a batch of samples. If a reference is needed, it is the policy that acted."""
        trajectory = self.trajectory()
        samples = make_samples(trajectory, self.algorithm.advantages(trajectory), self.config())
        if self.algorithm.needs.reference_logprobs:
            samples = replace(samples, reference_logprobs=samples.old_logprobs.clone())
        return samples

    def present(self, samples: Samples, *, drift: float = DRIFT) -> Present:
        """Return the current evaluation: that of the rollout plus Gaussian noise of std `drift`."""
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
        """Compute the loss of some samples.

        Args:
            samples: the batch.
            present: the current policy's evaluation of it.
            places: int64 indices of the samples; None: all that are trained on.
            weights: in place of the batch's.
            entropy: in place of that of `present`.
        """
        places = samples.trained.nonzero().squeeze(1) if places is None else places
        now = Evaluation(
            logprobs=present.logprobs[places],
            values=present.values[places],
            entropy=(present.entropy if entropy is None else entropy)[places],
        )
        batch = samples if weights is None else replace(samples, weights=weights)
        return self.algorithm.loss(now, batch[places])
