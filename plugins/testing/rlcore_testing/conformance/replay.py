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
from rlcore.validation.policy import check_output
from rlcore_testing.conformance.algorithm_subject import BEST, UPDATES, AlgorithmSubject
from rlcore_testing.conformance.base import require_arrays, require_equal, skip_unless
from rlcore_testing.conformance.threads import drawing_nothing
from rlcore_testing.conformance.trajectories import Bandit, bandit_inputs, bandit_rollout

DEMONSTRATIONS = 8
ROWS = np.arange(6)
LIMIT = 4.0
ENV = EnvSpec(
    name="bandit",
    tasks=("pull",),
    instructions=("pull",),
    train_trials=range(1000),
    heldout_trials=range(1000, 2000),
    cameras=(),
    states=(StateChannel("nothing", 1),),
    actions=(ActionChannel("ee_delta_position", 1, -LIMIT, LIMIT),),
    max_episode_steps=1,
)
KEYED = "draw by learning.draw and a loss's keys alone; keep no state but networks"


class ReplayConformance(AlgorithmSubject):
    """Checks of an algorithm with a replay, and of its acting networks if it has any.

    Set `name`, and `settings` if the defaults are not suitable.
    """

    def learner(self) -> tuple[Learner, Any]:
        """Return a learner and the acting policy: the bandit, with acting networks if any."""
        algorithm = self.algorithm
        policy = self._acting(Bandit(values=int(algorithm.needs.values)))
        learner = self.learner_of(policy, algorithm, env=ENV)
        if algorithm.needs.demonstrations:
            best = torch.full((DEMONSTRATIONS, 1, 1), BEST)
            inputs = {"features": torch.ones(DEMONSTRATIONS, 1)}
            samples = SupervisedSamples(
                inputs,
                best,
                best[..., 0].bool(),
                demonstration=torch.arange(DEMONSTRATIONS),
                steps_left=torch.ones(DEMONSTRATIONS, dtype=torch.int64),
            )
            learner.load_demonstrations(samples)
        return learner, policy

    def _acting(self, bandit: Any, folder: str | None = None) -> Any:
        return with_acting_networks(
            bandit, self.algorithm, ENV, algorithm_name=self.name, seed=0, folder=folder
        )

    def train(self, learner: Learner, policy: Any, updates: range) -> None:
        """Run updates, each on a new rollout of the policy."""
        for update in updates:
            bandit: Any = without_acting_networks(policy)
            learner.update(bandit_rollout(bandit, seed=update, actor=policy), update)

    def trained(self) -> Any:
        """Return the acting policy after all updates."""

        def make() -> Any:
            learner, policy = self.learner()
            self.train(learner, policy, range(UPDATES))
            return policy

        return self.shared("trained", make)

    # -- acting networks --------------------------------------------------------------------

    def test_untrained_it_leaves_the_policy_as_it_is(self) -> None:
        self.skip_unless_it_acts()
        _, policy = self.learner()
        for deterministic in (True, False):
            require_equal(
                "actions with networks that have learned nothing",
                decided(policy, ROWS, deterministic=deterministic),
                decided(without_acting_networks(policy), ROWS, deterministic=deterministic),
                "a checkpoint of before the first update must be the policy: pass its keys on as "
                "they are, and keep a buffer in a network that says when it has learned",
            )

    def test_what_it_decides_follows_from_row_and_key(self) -> None:
        self.skip_unless_it_acts()
        first = np.array([0, 1, 2, 3])
        second = np.array([5, 0, 4, 2])
        policy = self.trained()
        _, before, after = np.intersect1d(first, second, return_indices=True)
        hint = "draw from the keys alone, and judge each row by itself"
        with drawing_nothing("act", hint):
            got = decided(policy, second)[after]
            expected = decided(policy, first)[before]
        require_equal("actions of rows beside others, elsewhere", got, expected, hint)

    def test_actions_stay_in_range(self) -> None:
        self.skip_unless_it_acts()
        policy = copy.deepcopy(self.trained())
        with torch.no_grad():
            for parameter in policy.networks.parameters():
                parameter.mul_(30.0)
        furthest = np.abs(decided(policy, ROWS, deterministic=False)).max()
        own = np.abs(decided(without_acting_networks(policy), ROWS)).max()
        assert furthest <= max(LIMIT, own), (
            f"with wild networks an action is {furthest:.3g}, the env's range ends at {LIMIT:g}"
            "\n  hint: clip what was changed to EnvSpec.actions"
        )

    def test_a_saved_policy_acts_alike(self) -> None:
        self.skip_unless_it_acts()
        policy = self.trained()
        with tempfile.TemporaryDirectory() as folder:
            policy.save_pretrained(Path(folder))
            loaded = self._acting(without_acting_networks(policy), folder)
        hint = "decisions of acting networks may depend on nothing but the networks"
        got = decided(loaded, ROWS)
        expected = decided(policy, ROWS)
        require_equal("actions of what was saved", got, expected, hint)

    def skip_unless_it_acts(self) -> None:
        """Skip the check unless the algorithm has acting networks."""
        skip_unless(bool(self.algorithm.needs.acting_networks), "it has no part in acting")

    # -- updates ----------------------------------------------------------------------------

    def test_it_keeps_a_replay(self) -> None:
        assert self.algorithm.needs.replay is not None, (
            "needs.replay is None, expected what is kept\n  hint: an algorithm that learns from "
            "each rollout once: AlgorithmConformance"
        )

    def test_a_bandit_learns(self) -> None:
        policy = self.trained()
        bandit: Any = without_acting_networks(policy)
        acts = policy is not bandit
        mean = decided(policy, np.arange(64)).mean() if acts else bandit.mean.detach()
        self.require_best(float(mean), plot="the losses")

    def test_updates_repeat(self) -> None:
        """All randomness comes from keys."""
        runs = [self.learner(), self.learner()]
        for learner, policy in runs:
            self.train(learner, policy, range(3))
            torch.manual_seed(5)
        _require_same("made a second time", *runs)

    def test_a_resumed_run_goes_on_as_if_uninterrupted(self) -> None:
        runs = [self.learner(), self.learner()]
        (learner, policy), (resumed, loaded) = runs
        self.train(learner, policy, range(2))
        loaded.load_state_dict(policy.state_dict())
        resumed.load_state_dict(copy.deepcopy(learner.state_dict()))
        with tempfile.TemporaryDirectory() as folder:
            resumed.load_replay(Path(folder), learner.save_replay(Path(folder), known=()))
            for run in runs:
                self.train(*run, range(2, 4))
        _require_same("after a save and a load", *runs)


def decided(policy: Any, rows: np.ndarray, *, deterministic: bool = True) -> np.ndarray:
    """Return a policy's actions `[B]`; the keys are made from the row numbers."""
    keys = RowKeys(tuple((0, int(row)) for row in rows))
    output = policy.act(bandit_inputs(len(rows)), keys, deterministic=deterministic)
    return check_output(policy.spec, len(rows), output).actions[:, 0, 0]


def _require_same(label: str, expected: tuple[Learner, Any], got: tuple[Learner, Any]) -> None:
    """Require bitwise equal learners and policies."""
    states, expected_states = (
        {f"{name} of the policy": tensor for name, tensor in policy.state_dict().items()}
        | {f"{n} of the learner": t for n, t in learner.state_dict()["tensors"].items()}
        for learner, policy in (got, expected)
    )
    require_arrays(label, states, expected_states, KEYED)
