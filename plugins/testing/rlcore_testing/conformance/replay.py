"""Whether an algorithm that learns from a replay keeps the contract of its updates.

    class TestMyAlgorithm(ReplayConformance):
        name = "my_algorithm"

It is given a bandit to learn, and demonstrations of its best action if it asks for them.
"""

from __future__ import annotations

import copy
import tempfile
from pathlib import Path
from typing import Any

import torch

from rlcore.config.schema import ActorConfig
from rlcore.contracts.specs import ActionChannel, EnvSpec, StateChannel
from rlcore.learner.supervised import SupervisedSamples
from rlcore.learner.update import Learner
from rlcore_testing.conformance.algorithm_subject import AlgorithmSubject
from rlcore_testing.conformance.base import Finding, check, require, require_equal
from rlcore_testing.conformance.trajectories import Bandit, bandit_rollout

BEST = 1.0  # the action the bandit is rewarded for
UPDATES, SHOWN = 20, 8
LIMIT = 4.0
ENV = EnvSpec(
    "bandit", ("pull",), ("pull",), range(1000), range(1000, 2000), (),
    (StateChannel("nothing", 1),), (ActionChannel("ee_delta_position", 1, -LIMIT, LIMIT),), 1,
)  # fmt: skip


class ReplayConformance(AlgorithmSubject):
    """Checks of an algorithm with a replay. Set `name` and, where defaults don't do, `settings`."""

    def test_it_keeps_a_replay(self) -> None:
        require(
            self.algorithm.needs.replay is not None,
            "needs.replay is None, expected what is kept",
            hint="an algorithm that learns from each rollout once: AlgorithmConformance",
        )

    def test_a_bandit_learns(self) -> None:
        learner, policy = self._learner()
        self._train(learner, policy, range(UPDATES))
        mean = float(policy.mean.detach())
        require(
            abs(mean - BEST) < 0.7 * BEST,
            f"after {UPDATES} updates of a bandit its mean action went from 0 to {mean:.3f}, "
            f"expected it to come nearer to the best one, {BEST}",
            hint="plot the losses of one update; look at signs first",
        )

    def test_updates_repeat(self) -> None:
        """All randomness comes from keys."""
        (one, first), (other, second) = self._learner(), self._learner()
        for learner, policy in ((one, first), (other, second)):
            self._train(learner, policy, range(3))
            torch.manual_seed(5)
        self._require_same("made a second time", one, first, other, second)

    def test_a_resumed_run_goes_on_as_if_uninterrupted(self) -> None:
        (one, first), (other, second) = self._learner(), self._learner()
        self._train(one, first, range(2))
        second.load_state_dict(first.state_dict())
        other.load_state_dict(copy.deepcopy(one.state_dict()))
        with tempfile.TemporaryDirectory() as folder:
            other.load_replay(Path(folder), one.save_replay(Path(folder), known=()))
            for learner, policy in ((one, first), (other, second)):
                self._train(learner, policy, range(2, 4))
        self._require_same("after a save and a load", one, first, other, second)

    def _learner(self) -> tuple[Learner, Any]:
        algorithm = self.algorithm
        policy: Any = Bandit(values=int(algorithm.needs.values))
        actor = ActorConfig(micro_batch_size=16, global_batch_size=32)
        actor.optim.lr, actor.optim.value_lr = 0.05, 0.2
        learner = Learner(policy, algorithm, actor, self.config(), seed=0, env=ENV)
        if algorithm.needs.demonstrations:
            shown = torch.full((SHOWN, 1, 1), BEST)
            mask = torch.ones(SHOWN, 1, dtype=torch.bool)
            learner.teach(SupervisedSamples({"features": torch.ones(SHOWN, 1)}, shown, mask))
        return learner, policy

    def _train(self, learner: Learner, policy: Any, updates: range) -> None:
        for update in updates:
            learner.update(bandit_rollout(policy, seed=update), update)

    def _require_same(
        self, how: str, one: Learner, first: Any, other: Learner, second: Any
    ) -> None:
        hint = "draw by learning.draw and a loss's keys alone; keep no state but networks"
        for name, tensor in first.state_dict().items():
            require_equal(f"{name} of the policy {how}", second.state_dict()[name], tensor,
                          hint=hint)  # fmt: skip
        mine, its = one.state_dict()["tensors"], other.state_dict()["tensors"]
        for name, tensor in mine.items():
            require_equal(f"{name} of the learner {how}", its[name], tensor, hint=hint)


def check_replay(name: str, **settings: Any) -> list[Finding]:
    """What algorithm `name`, which keeps a replay, does against the contract under `settings`;
    empty if nothing."""
    return check(ReplayConformance, name, settings)
