"""Check whether an algorithm meets :class:`rlcore.contracts.protocols.Algorithm`'s contract.

    class TestMyAlgorithm(AlgorithmConformance):
        name = "my_algorithm"

The algorithm gets random trajectories whose episodes end inside chunks, and trains a bandit.
"""

from __future__ import annotations

from typing import Any

from rlcore_testing.conformance.algorithm_advantages import AdvantageChecks
from rlcore_testing.conformance.algorithm_loss import LossChecks
from rlcore_testing.conformance.algorithm_subject import UPDATES
from rlcore_testing.conformance.trajectories import Bandit, bandit_rollout

LATER = 100_000


class AlgorithmConformance(AdvantageChecks, LossChecks):
    """Checks of an on-policy algorithm.

    Set `name`, and `settings` if the defaults are not suitable. Methods of
    :class:`AlgorithmSubject` may be overridden. For an algorithm with a replay use
    :class:`rlcore_testing.ReplayConformance`.
    """

    def test_a_bandit_learns(self) -> None:
        """Makes whole updates in rlcore's learner, from the first one that trains the policy."""
        algorithm = self.algorithm
        updates = [0, *(2**k for k in range(17))]
        first = next((update for update in updates if algorithm.trains_policy(update)), 0)
        policy: Any = Bandit(values=int(algorithm.needs.values))
        learner = self.learner_of(policy, algorithm)
        for update in range(first, first + UPDATES):
            rollout = bandit_rollout(policy, seed=update, group_size=self.group_size)
            learner.update(rollout, update)
        self.require_best(float(policy.mean.detach()), plot="advantages and loss")

    def test_the_policy_is_trained_sooner_or_later(self) -> None:
        algorithm = self.algorithm
        answers = {update: algorithm.trains_policy(update) for update in (0, 1, LATER)}
        assert {*answers.values()} <= {True, False} and answers[LATER], (
            f"trains_policy gave {answers} by update, which counts from 0; expected true or false, "
            f"and true by update {LATER}\n  hint: a warm-up of the critic ends after some updates"
        )
        limit = algorithm.target_kl
        assert limit is None or limit > 0, (
            f"target_kl is {limit}, expected a positive number or None\n  hint: None: an update is "
            "never cut short"
        )
