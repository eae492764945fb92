"""Check whether an algorithm meets :class:`rlcore.contracts.protocols.Algorithm`'s contract.

    class TestMyAlgorithm(AlgorithmConformance):
        name = "my_algorithm"

The algorithm gets random trajectories whose episodes end inside chunks, and trains a bandit.
"""

from __future__ import annotations

from typing import Any

from rlcore_testing.conformance.algorithm_advantages import AdvantageChecks
from rlcore_testing.conformance.algorithm_loss import LossChecks
from rlcore_testing.conformance.algorithm_subject import UPDATES, AlgorithmSubject
from rlcore_testing.conformance.base import Finding, check, require
from rlcore_testing.conformance.trajectories import Bandit, bandit_rollout

LATER = 100_000


class TrainingChecks(AlgorithmSubject):
    """Checks of whole updates, in rlcore's learner."""

    def test_a_bandit_learns(self) -> None:
        algorithm, first = self.algorithm, self._first_update()
        policy: Any = Bandit(values=int(algorithm.needs.values))
        learner = self.learner_of(policy, algorithm)
        for update in range(first, first + UPDATES):
            played = bandit_rollout(policy, seed=update, group_size=self.group_size)
            learner.update(played, update)
        self.require_best(float(policy.mean.detach()), plot="advantages and loss")

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
        """Return the first update of 0, 1, 2, 4, ..., 65536 that trains the policy, or else 0."""
        return next(
            (u for u in (0, *(2**k for k in range(17))) if self.algorithm.trains_policy(u)), 0
        )


class AlgorithmConformance(AdvantageChecks, LossChecks, TrainingChecks):
    """Checks of an on-policy algorithm.

    Set `name`, and `settings` if the defaults are not suitable. Methods of
    :class:`AlgorithmSubject` may be overridden. For an algorithm with a replay use
    :class:`rlcore_testing.ReplayConformance`.
    """


def check_algorithm(name: str, **settings: Any) -> list[Finding]:
    """Return the contract violations of algorithm `name` under `settings`."""
    return check(AlgorithmConformance, name, settings)
