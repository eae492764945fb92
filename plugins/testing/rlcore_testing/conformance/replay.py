"""Check whether an algorithm that learns from a replay meets the contract of updates.

    class TestMyAlgorithm(ReplayConformance):
        name = "my_algorithm"

The algorithm trains a bandit, with demonstrations of the best action if it needs demonstrations.
"""

from __future__ import annotations

import copy
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rlcore.contracts.rng import RowKeys
from rlcore.contracts.specs import ActionChannel, EnvSpec, StateChannel
from rlcore.demonstrations.datasets import SupervisedSamples
from rlcore.learner.acting import with_acting_networks, without_acting_networks
from rlcore.learner.update import Learner
from rlcore.validation.policy import checked_output
from rlcore_testing.conformance.algorithm_subject import BEST, UPDATES, AlgorithmSubject
from rlcore_testing.conformance.base import Finding, check, require, require_equal, skip_unless
from rlcore_testing.conformance.trajectories import Bandit, bandit_inputs, bandit_rollout

SHOWN = 8
ROWS, SEED = 6, 0
LIMIT = 4.0
ENV = EnvSpec(
    "bandit", ("pull",), ("pull",), range(1000), range(1000, 2000), (),
    (StateChannel("nothing", 1),), (ActionChannel("ee_delta_position", 1, -LIMIT, LIMIT),), 1,
)  # fmt: skip


class ReplaySubject(AlgorithmSubject):
    """Base of the checks: trains a bandit, which acts with the algorithm's acting networks."""

    def learner(self) -> tuple[Learner, Any]:
        """Return a learner and the acting policy: the bandit, with acting networks if any."""
        algorithm = self.algorithm
        bandit: Any = Bandit(values=int(algorithm.needs.values))
        policy: Any = with_acting_networks(
            bandit, algorithm, ENV, named=self.name, seed=0, folder=None
        )
        learner = self.learner_of(policy, algorithm, env=ENV)
        if algorithm.needs.demonstrations:
            shown = torch.full((SHOWN, 1, 1), BEST)
            mask = torch.ones(SHOWN, 1, dtype=torch.bool)
            learner.teach(SupervisedSamples({"features": torch.ones(SHOWN, 1)}, shown, mask))
        return learner, policy

    def train(self, learner: Learner, policy: Any, updates: range) -> None:
        """Run updates, each on a new rollout of the policy."""
        for update in updates:
            bandit: Any = without_acting_networks(policy)
            learner.update(bandit_rollout(bandit, seed=update, actor=policy), update)

    def decided(self, policy: Any, rows: np.ndarray, *, deterministic: bool = True) -> np.ndarray:
        """Return the policy's actions `[B]`; the keys are made from the row numbers."""
        keys = RowKeys(tuple((SEED, int(row)) for row in rows))
        output = policy.act(bandit_inputs(len(rows)), keys, deterministic=deterministic)
        return checked_output(policy.spec, len(rows), output).actions[:, 0, 0]


class ActingChecks(ReplaySubject):
    """Checks of an algorithm with acting networks."""

    def test_untrained_it_leaves_the_policy_as_it_is(self) -> None:
        policy = self._acting()
        rows = np.arange(ROWS)
        for deterministic in (True, False):
            require_equal(
                "actions with networks that have learned nothing",
                self.decided(policy, rows, deterministic=deterministic),
                self.decided(without_acting_networks(policy), rows, deterministic=deterministic),
                hint="a checkpoint of before the first update must be the policy: pass its keys "
                "on as they are, and keep a buffer in a network that says when it has learned",
            )

    def test_what_it_decides_follows_from_row_and_key(self) -> None:
        policy = self._trained()
        first, second = np.array([0, 1, 2, 3]), np.array([5, 0, 4, 2])
        state = torch.get_rng_state()
        one, other = (self.decided(policy, rows) for rows in (first, second))
        _, before, after = np.intersect1d(first, second, return_indices=True)
        hint = "draw from the keys alone, and judge each row by itself"
        require_equal("actions of rows beside others, elsewhere", other[after], one[before],
                      hint=hint)  # fmt: skip
        require(torch.equal(state, torch.get_rng_state()), "acting draws from torch's global "
                "generator, expected all randomness from the keys", hint=hint)  # fmt: skip

    def test_actions_stay_in_range(self) -> None:
        policy = copy.deepcopy(self._trained())
        with torch.no_grad():
            for parameter in policy.networks.parameters():
                parameter.mul_(30.0)
        far = np.abs(self.decided(policy, np.arange(ROWS), deterministic=False)).max()
        most = max(
            LIMIT, np.abs(self.decided(without_acting_networks(policy), np.arange(ROWS))).max()
        )
        require(far <= most, f"with wild networks an action is {far:.3g}, the env's range ends at "
                f"{LIMIT:g}", hint="clip what was changed to EnvSpec.actions")  # fmt: skip

    def test_a_saved_policy_acts_alike(self) -> None:
        policy, rows = self._trained(), np.arange(ROWS)
        with tempfile.TemporaryDirectory() as folder:
            policy.save_pretrained(Path(folder))
            loaded: Any = with_acting_networks(
                without_acting_networks(policy),
                self.algorithm,
                ENV,
                named=self.name,
                seed=1,
                folder=folder,
            )
        require_equal("actions of what was saved", self.decided(loaded, rows),
                      self.decided(policy, rows),
                      hint="who acts may depend on nothing but networks that act")  # fmt: skip

    def _acting(self) -> Any:
        skip_unless(bool(self.algorithm.needs.acting_networks), "it has no part in acting")
        return self.learner()[1]

    def _trained(self) -> Any:
        self._acting()
        return self.shared("trained", self._make_trained)

    def _make_trained(self) -> Any:
        learner, policy = self.learner()
        self.train(learner, policy, range(UPDATES))
        return policy


class ReplayConformance(ActingChecks):
    """Checks of an algorithm with a replay.

    Set `name`, and `settings` if the defaults are not suitable.
    """

    def test_it_keeps_a_replay(self) -> None:
        require(
            self.algorithm.needs.replay is not None,
            "needs.replay is None, expected what is kept",
            hint="an algorithm that learns from each rollout once: AlgorithmConformance",
        )

    def test_a_bandit_learns(self) -> None:
        learner, policy = self.learner()
        self.train(learner, policy, range(UPDATES))
        mean = float(without_acting_networks(policy).mean.detach())  # type: ignore[attr-defined]  # a bandit
        if policy is not without_acting_networks(policy):
            mean = float(self.decided(policy, np.arange(64)).mean())
        self.require_best(mean, plot="the losses")

    def test_updates_repeat(self) -> None:
        """All randomness comes from keys."""
        (one, first), (other, second) = self.learner(), self.learner()
        for learner, policy in ((one, first), (other, second)):
            self.train(learner, policy, range(3))
            torch.manual_seed(5)
        self._require_same("made a second time", one, first, other, second)

    def test_a_resumed_run_goes_on_as_if_uninterrupted(self) -> None:
        (one, first), (other, second) = self.learner(), self.learner()
        self.train(one, first, range(2))
        second.load_state_dict(first.state_dict())
        other.load_state_dict(copy.deepcopy(one.state_dict()))
        with tempfile.TemporaryDirectory() as folder:
            other.load_replay(Path(folder), one.save_replay(Path(folder), known=()))
            for learner, policy in ((one, first), (other, second)):
                self.train(learner, policy, range(2, 4))
        self._require_same("after a save and a load", one, first, other, second)

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
    """Return the contract violations of algorithm `name`, which has a replay, under `settings`."""
    return check(ReplayConformance, name, settings)
