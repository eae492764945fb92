"""Whether an algorithm keeps the contract of :class:`rlcore.contracts.protocols.Algorithm`.

    class TestMyAlgorithm(AlgorithmConformance):
        name = "my_algorithm"

It is given random trajectories with ends inside chunks, and a bandit to learn.
"""

from __future__ import annotations

from typing import Any

from rlcore.config.schema import ActorConfig
from rlcore.learner.update import Learner
from rlcore_testing.conformance.algorithm_advantages import AdvantageChecks
from rlcore_testing.conformance.algorithm_loss import LossChecks
from rlcore_testing.conformance.algorithm_subject import AlgorithmSubject
from rlcore_testing.conformance.base import Finding, check, require
from rlcore_testing.conformance.trajectories import Bandit, bandit_rollout

BEST = 1.0  # the action the bandit is rewarded for
UPDATES = 20
LATER = 100_000


class TrainingChecks(AlgorithmSubject):
    """The whole of it, in rlcore's learner."""

    def test_a_bandit_learns(self) -> None:
        algorithm, config = self.algorithm, self.config()
        first = self._first_update()
        policy: Any = Bandit(values=int(algorithm.needs.values))
        actor = ActorConfig(micro_batch_size=16, global_batch_size=32)
        actor.optim.lr, actor.optim.value_lr = 0.05, 0.2
        learner = Learner(policy, algorithm, actor, config, seed=0)
        for update in range(first, first + UPDATES):
            played = bandit_rollout(policy, seed=update, group_size=self.group_size)
            learner.update(played, update)
        mean = float(policy.mean.detach())
        require(
            abs(mean - BEST) < 0.7 * BEST,
            f"after {UPDATES} updates of a bandit its mean action went from 0 to {mean:.3f}, "
            f"expected it to come nearer to the best one, {BEST}",
            hint="plot advantages and loss of one update; look at signs first",
        )

    def test_the_policy_is_trained_sooner_or_later(self) -> None:
        algorithm = self.algorithm
        answers = {update: algorithm.trains_policy(update) for update in (0, 1, LATER)}
        require(
            all(isinstance(answer, bool) for answer in answers.values()),
            f"trains_policy gave {answers}, expected true or false",
            hint="update counts from 0",
        )
        require(
            answers[LATER],
            f"trains_policy({LATER}) is false, expected the policy to be trained by then",
            hint="a warm-up of the critic ends after some updates",
        )
        limit = algorithm.target_kl
        require(
            limit is None or limit > 0,
            f"target_kl is {limit}, expected a positive number or None",
            hint="None: an update is never cut short",
        )

    def _first_update(self) -> int:
        """The first update, in powers of two, that trains the policy."""
        return next(
            (u for u in (0, *(2**k for k in range(17))) if self.algorithm.trains_policy(u)), 0
        )


class AlgorithmConformance(AdvantageChecks, LossChecks, TrainingChecks):
    """Checks of an on-policy algorithm; for one with a replay there is
    :class:`rlcore_testing.ReplayConformance`. Set `name` and, where defaults don't do, `settings`;
    methods of :class:`AlgorithmSubject` may be replaced."""


def check_algorithm(name: str, **settings: Any) -> list[Finding]:
    """What algorithm `name` does against the contract under `settings`; empty if nothing."""
    return check(AlgorithmConformance, name, settings)
