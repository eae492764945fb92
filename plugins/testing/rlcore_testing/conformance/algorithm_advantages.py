"""Check advantages: shapes, independence of steps that were not executed, and declared needs."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import torch
from rlcore_policy_gradient.minibatch import Advantages
from rlcore_policy_gradient.validation import checked_advantages

from rlcore_testing.conformance.algorithm_subject import ACTIONS, AlgorithmSubject
from rlcore_testing.conformance.base import require, require_arrays, require_refused, skip_unless
from rlcore_testing.conformance.trajectories import padded, reordered

ROUNDING = 1e-5


class AdvantageChecks(AlgorithmSubject):
    """Checks of `advantages`."""

    def test_advantages_have_their_shapes(self) -> None:
        trajectory = self.trajectory()
        result = checked_advantages(self.name, trajectory, self.algorithm.advantages(trajectory))
        hint = "returns are [T, N, V], and V is 0 without a critic"
        require("V of the returns", result.returns.shape[-1], self.value_width, hint)
        per_action = result.advantages.shape[-1] == ACTIONS
        trained = result.valid if per_action else result.valid.any(-1, keepdim=True)
        assert not result.advantages[~trained].any(), (
            "advantages are not 0 where nothing is trained on"
            "\n  hint: torch.where(valid, advantages, 0)"
        )

    def test_advantages_change_nothing_and_repeat(self) -> None:
        trajectory = self.trajectory()
        before = copy.deepcopy(trajectory)
        self.algorithm.advantages(trajectory)
        arrays, copies = (
            {name: array for name, array in vars(t).items() if isinstance(array, torch.Tensor)}
            for t in (trajectory, before)
        )
        hint = "pure functions: no in-place operations on it"
        require_arrays("of the trajectory after advantages", arrays, copies, hint)
        self._require_same("made a second time", self.algorithm.advantages(before))

    def test_what_was_never_executed_plays_no_part(self) -> None:
        trajectory = self.trajectory()
        idle = trajectory.sample_index < 0
        valid = trajectory.valid
        rubbish = replace(
            trajectory,
            logprobs=trajectory.logprobs.masked_fill(~valid[..., None], torch.nan),
            values=trajectory.values.masked_fill(idle[..., None], torch.nan),
        )
        result = self.algorithm.advantages(rubbish)
        self._require_same("with NaN for what no policy decided", result)

    def test_idle_columns_and_chunks_change_nothing(self) -> None:
        trajectory = self.trajectory()
        chunks, columns = trajectory.valid.shape[:2]
        wider = self.algorithm.advantages(padded(trajectory, chunks=2, columns=4))
        cut = _indexed(wider, (slice(chunks), slice(columns)))
        self._require_same("with idle chunks and columns beside", cut)
        hint = "start from trajectory.valid"
        idle = int(wider.valid.sum() - cut.valid.sum())
        require("the number of idle steps that are valid", idle, 0, hint)

    def test_the_order_of_columns_changes_nothing(self) -> None:
        trajectory = self.trajectory()
        columns = trajectory.valid.shape[1]
        order = torch.randperm(columns, generator=torch.Generator().manual_seed(0))
        moved = self.algorithm.advantages(reordered(trajectory, order))
        back = _indexed(moved, (slice(None), order.argsort()))
        self._require_same("of columns in another order", back)

    def test_bootstrap_values_are_read_where_they_are_needed(self) -> None:
        """At time limits only: the final observation's value costs a render and a forward pass."""
        trajectory = self.trajectory()
        skip_unless(self.value_width > 0, "it needs no values")
        raised = 10.0 * trajectory.truncated.any(-1, keepdim=True)
        changed = replace(trajectory, bootstrap_values=trajectory.bootstrap_values + raised)
        first, second = (self.algorithm.advantages(t).returns for t in (trajectory, changed))
        require(
            "whether returns depend on the values of truncated episodes' final observations",
            not torch.equal(first, second),
            self.algorithm.needs.bootstrap_values,
            "rollouts make these values only where needs.bootstrap_values is true",
        )

    def test_groups_are_missed_where_they_are_needed(self) -> None:
        skip_unless(self.algorithm.needs.groups, "it needs no groups")
        trajectory = self.trajectory()
        ungrouped = replace(trajectory, group=torch.full_like(trajectory.group, -1))
        require_refused(
            "needs.groups is true, yet advantages of episodes without a group",
            lambda: self.algorithm.advantages(ungrouped),
            "raise a ConfigError where group is -1, and name algorithm.group_size",
        )

    def _require_same(self, label: str, result: Advantages) -> None:
        """Require the advantages of :meth:`trajectory`, to rounding."""
        expected = self.algorithm.advantages(self.trajectory())
        hint = "advantages follow from executed actions, their rewards and values alone"
        require_arrays(label, vars(result), vars(expected), hint, atol=ROUNDING)


def _indexed(advantages: Advantages, places: tuple[Any, ...]) -> Advantages:
    """Return the entries of each array at some chunks and columns."""
    return Advantages(**{name: array[places] for name, array in vars(advantages).items()})
