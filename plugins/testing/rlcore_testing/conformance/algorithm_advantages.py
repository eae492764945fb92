"""Check advantages: shapes, independence of steps that were not executed, and declared needs."""

from __future__ import annotations

import copy
from dataclasses import fields, replace

import torch
from rlcore_policy_gradient.minibatch import Advantages
from rlcore_policy_gradient.validation import checked_advantages

from rlcore.contracts.errors import UserError
from rlcore.contracts.trajectory import Trajectory
from rlcore_testing.conformance.algorithm_subject import ACTIONS, AlgorithmSubject
from rlcore_testing.conformance.base import require_equal, require_fields, skip_unless
from rlcore_testing.conformance.trajectories import padded, reordered

ROUNDING = 1e-5
PARTS = ("advantages", "returns", "valid")


class AdvantageChecks(AlgorithmSubject):
    """Checks of `advantages`."""

    def test_advantages_have_their_shapes(self) -> None:
        trajectory = self.trajectory()
        result = checked_advantages(self.name, trajectory, self.algorithm.advantages(trajectory))
        assert result.returns.shape[-1] == self.value_width, (
            f"returns is {list(result.returns.shape)}, expected V = {self.value_width} at the end"
            "\n  hint: returns are [T, N, V], and V is 0 without a critic"
        )
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
        for name in [field.name for field in fields(Trajectory)]:
            array = getattr(trajectory, name)
            copied = getattr(before, name)
            if isinstance(array, torch.Tensor):
                hint = "pure functions: no in-place operations on it"
                require_equal(f"trajectory.{name} after advantages", array, copied, hint)
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
        cut = Advantages(*(getattr(wider, name)[:chunks, :columns] for name in PARTS))
        self._require_same("with idle chunks and columns beside", cut)
        assert wider.valid.sum() == cut.valid.sum(), (
            "valid is true in idle chunks or columns, expected false"
            "\n  hint: start from trajectory.valid"
        )

    def test_the_order_of_columns_changes_nothing(self) -> None:
        trajectory = self.trajectory()
        columns = trajectory.valid.shape[1]
        order = torch.randperm(columns, generator=torch.Generator().manual_seed(0))
        moved = self.algorithm.advantages(reordered(trajectory, order))
        back = Advantages(*(getattr(moved, name)[:, order.argsort()] for name in PARTS))
        self._require_same("of columns in another order", back)

    def test_bootstrap_values_are_read_where_they_are_needed(self) -> None:
        """At time limits only: the final observation's value costs a render and a forward pass."""
        trajectory = self.trajectory()
        skip_unless(self.value_width > 0, "it needs no values")
        raised = 10.0 * trajectory.truncated.any(-1, keepdim=True)
        changed = replace(trajectory, bootstrap_values=trajectory.bootstrap_values + raised)
        first, second = (self.algorithm.advantages(t).returns for t in (trajectory, changed))
        reads = not torch.equal(first, second)
        needs = self.algorithm.needs.bootstrap_values
        assert reads == needs, (
            f"needs.bootstrap_values is {needs}, but returns {'do' if reads else 'do not'} depend "
            "on the values of truncated episodes' final observations\n  hint: rollouts make these "
            "values only where needs.bootstrap_values is true"
        )

    def test_groups_are_missed_where_they_are_needed(self) -> None:
        skip_unless(self.algorithm.needs.groups, "it needs no groups")
        trajectory = self.trajectory()
        ungrouped = replace(trajectory, group=torch.full_like(trajectory.group, -1))
        try:
            self.algorithm.advantages(ungrouped)
        except UserError:
            return
        raise AssertionError(
            "needs.groups is true, yet advantages takes episodes that belong to no group\n  hint: "
            "raise rlcore.contracts.errors.ConfigError where group is -1, and name "
            "algorithm.group_size"
        )

    def _require_same(self, how: str, result: Advantages) -> None:
        """Require the advantages of :meth:`trajectory`, to rounding."""
        expected = self.algorithm.advantages(self.trajectory())
        hint = "advantages follow from executed actions, their rewards and values alone"
        require_fields(PARTS, how, result, expected, hint, atol=ROUNDING)
