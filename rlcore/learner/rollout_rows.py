"""Read decisions of rollouts as rows of a replay: inputs, chunks, and n-step targets.

    segments (one a rollout) -> light arrays side by side [T, N]   read at once for all rows
                             -> inputs of each segment             read segment by segment

A row is a decision. Rows are numbered segment by segment, and within one column by column. The next
inputs of a decision are those of the decision after it.

Legend: T chunks, N columns, M decisions, B rows, C actions, H the policy's horizon.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from rlcore.contracts.trajectory import Trajectory
from rlcore.learner import collectives
from rlcore.learner.demonstration_rows import INPUTS
from rlcore.rollout.columns import LIGHT, NO_DECISION, append, take


@dataclass(frozen=True)
class Segment:
    """The decisions of one rollout.

    Attributes:
        number: number of updates done before the rollout.
        parts: number of files that the segment is saved in, one for each rank that collected it.
        batch: light arrays of all ranks, and the inputs that this rank holds.
    """

    number: int
    parts: int
    batch: Trajectory

    @cached_property
    def decisions(self) -> tuple[Tensor, Tensor]:
        """Return (chunk, column) of each decision, column by column: int64 `[M]` each."""
        column, chunk = self.batch.valid.any(-1).T.nonzero(as_tuple=True)
        return chunk, column

    def __len__(self) -> int:
        return len(self.decisions[0])

    @cached_property
    def success(self) -> Tensor:
        """Return whether the episode of each decision succeeds, now or later: bool `[M]`."""
        chunk, column = self.decisions
        successful = self.batch.success & self.batch.valid.any(-1)
        same_episode = self.batch.episode[chunk, column][:, None] == self.batch.episode.T[column]
        return (same_episode & successful.T[column]).any(-1)

    @cached_property
    def bytes(self) -> int:
        """Size on all ranks in bytes: light arrays of columns with a decision, and the inputs of
        all decisions, final ones included. To be read on all ranks at once."""
        light = [getattr(self.batch, name)[0, 0] for name in LIGHT]
        chunks = len(self.batch.valid) * int(self.batch.valid.any(-1).any(0).sum())
        total = chunks * sum(array.numel() * array.element_size() for array in light)
        rows = int(collectives.all_sum(int((self.batch.sample_index != NO_DECISION).sum())))
        for array in self.batch.inputs.values():
            total += rows * array.shape[1:].numel() * array.element_size()
        return total

    def local_columns(self) -> Trajectory:
        """Return the columns whose inputs this rank holds."""
        columns = (self.batch.sample_index != NO_DECISION).any(0).nonzero().squeeze(1)
        return take(self.batch, columns.tolist())


class RolloutRows:
    """Rows of rollouts.

    To read the light arrays of each segment apart would take as long for every further rollout.

    Args:
        segments: at least one, in order.
    """

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._segments = segments
        # a chunk that pads a shorter segment has no decision and no executed step
        light = append([replace(segment.batch, inputs={}, replay={}) for segment in segments])
        # the segments keep their own arrays, so only those that are read are kept twice
        self._valid = light.valid
        self._rewards = light.rewards
        self._terminated = light.terminated
        self._truncated = light.truncated
        self._actions = light.actions
        self._episode = light.episode
        self._sample_index = light.sample_index
        counts = [int((s.batch.sample_index != NO_DECISION).sum()) for s in segments]
        self._first_sample = torch.tensor([0, *counts]).cumsum(0)
        self._first_row = torch.tensor([0, *map(len, segments)]).cumsum(0)
        self._column, self._chunk = self._valid.any(-1).T.nonzero(as_tuple=True)
        lasts = []
        for segment in segments:
            chunks, columns = segment.batch.valid.shape[:2]
            lasts.append(torch.full((columns,), chunks - 1))
        self._last_chunk = torch.cat(lasts)  # of each column

    def __len__(self) -> int:
        return len(self._chunk)

    @property
    def is_local(self) -> Tensor:
        """Return for each decision whether this rank has its inputs: bool `[M]`."""
        return self._sample_index[self._chunk, self._column] != NO_DECISION

    def _cells(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return (chunk, column) of rows, int64 `[B]` each."""
        return self._chunk[rows], self._column[rows]

    def _cells_from(
        self, chunk: Tensor, column: Tensor, count: int
    ) -> tuple[tuple[Tensor, Tensor], Tensor]:
        """Find `count` consecutive cells of a column, beginning with each of B decisions.

        Returns:
            (chunk, column), int64 `[B, n]` each, clamped to the last chunk of the segment; and
            whether the cell is in the segment and has the number of the same episode, bool
            `[B, n]`. Cells behind a column may have that number too: no step was executed there.
        """
        last = self._last_chunk[column][:, None]
        chunks = chunk[:, None] + torch.arange(count)
        positions = (chunks.minimum(last), column[:, None].expand_as(chunks))
        same_episode = self._episode[positions] == self._episode[chunk, column][:, None]
        return positions, (chunks <= last) & same_episode

    def _segment(self, rows: Tensor) -> Tensor:
        """Return the segments of rows, int64 `[B]`."""
        return torch.bucketize(rows, self._first_row[1:], right=True)

    def inputs(self, rows: Tensor) -> dict[str, Tensor]:
        """Return the inputs of rows, which this rank must hold: `{name: [B, ...]}`."""
        return self._samples(self._sample_index[self._cells(rows)])

    def _samples(self, numbers: Tensor) -> dict[str, Tensor]:
        """Return the inputs of samples `[B]`, which are numbered over the segments."""
        ordered, order = numbers.sort(stable=True)
        owner = torch.bucketize(ordered, self._first_sample[1:], right=True)
        local = ordered - self._first_sample[owner]
        counts = owner.bincount(minlength=len(self._segments)).tolist()
        parts = [
            {name: take_rows(array, index) for name, array in segment.batch.inputs.items()}
            for segment, index in zip(self._segments, local.split(counts), strict=True)
            if len(index) or not len(numbers)  # without rows, empty arrays of the same names
        ]
        back = order.argsort()
        return {
            name: take_rows(torch.cat([part[name] for part in parts]), back) for name in parts[0]
        }

    def actions(self, rows: Tensor) -> dict[str, Tensor]:
        """Return the chunks of rows as decided: `actions` float32 `[B, C, A]`."""
        return {"actions": self._actions[self._cells(rows)]}

    def targets(self, rows: Tensor, horizon: int) -> dict[str, Tensor]:
        """Return actions `[B, H, A]` and mask `[B, H]`; see `action_targets` of
        :class:`rlcore.contracts.learning.Replay`."""
        chunk, column = self._cells(rows)
        chunks = -(-horizon // self._valid.shape[-1])  # rounded up
        positions, same_episode = self._cells_from(chunk, column, chunks)
        executed = (self._valid[positions] & same_episode[..., None]).flatten(1)  # [B, n C]
        actions = self._actions[positions].flatten(1, 2)
        # executed actions first, in their order
        order = (~executed).int().argsort(dim=1, stable=True)[:, :horizon]
        count = executed.sum(1, keepdim=True)
        step = torch.arange(horizon).expand(len(rows), -1)
        # past the end of the episode, the last executed action is repeated
        source = order.gather(1, step.minimum(count - 1))
        return {
            "actions": actions.gather(1, source[..., None].expand(-1, -1, actions.shape[-1])),
            "mask": step < count,
        }

    def n_step_targets(self, rows: Tensor, chunks: int, gamma: float) -> dict[str, Tensor]:
        """Return n-step targets: `rewards`, `discounts`, `valid`, `truncated`, `actions` and
        `inputs.NAME`; see :class:`rlcore.contracts.learning.NStepTargets`."""
        segment, order = self._segment(rows).sort(stable=True)
        counts = segment.bincount(minlength=len(self._segments)).tolist()
        chunk, column = self._cells(rows[order])
        # n chunks with rewards, and the decision after them
        positions, same_episode = self._cells_from(chunk, column, chunks + 1)
        executed = self._valid[positions] & same_episode[..., None]
        decided = executed.any(-1)
        executed[:, chunks:] = False
        steps = executed.flatten(1)  # [B, (n + 1) C]
        # the reward of the i-th executed step, from 0, is discounted by gamma^i
        power = _powers(gamma, steps.cumsum(1) - 1, counts)
        rewards = torch.where(steps, self._rewards[positions].flatten(1) * power, 0.0).sum(1)
        terminated = (self._terminated[positions].flatten(1) & steps).any(1)
        truncated = (self._truncated[positions].flatten(1) & steps).any(1) & ~terminated
        # a decision that no step executed is the one at the final observation
        has_inputs = self._sample_index[positions] != NO_DECISION
        final = same_episode & ~decided & has_inputs & ~terminated[:, None]
        following = torch.where(final.any(1), final.int().argmax(1), chunks)[:, None]
        continues = (decided | final).gather(1, following).squeeze(1)
        discounts = torch.where(continues, _powers(gamma, steps.sum(1), counts), 0.0)
        after = tuple(axis.gather(1, following).squeeze(1) for axis in positions)
        # a row without a next decision has discount 0 and may take any sample of its segment
        sample = self._sample_index[after].maximum(self._first_sample[segment])
        back = order.argsort()
        targets = {
            "rewards": rewards.float(),
            "discounts": discounts.float(),
            "valid": continues | terminated,
            "truncated": truncated,
            "actions": self._actions[after],
        }
        inputs = self._samples(sample[back])
        return {
            **{name: take_rows(array, back) for name, array in targets.items()},
            **{f"{INPUTS}{name}": array for name, array in inputs.items()},
        }


def _powers(gamma: float, exponents: Tensor, counts: Sequence[int]) -> Tensor:
    """Return gamma to the power of each exponent, float32 `[B, ...]`.

    The last few entries of an array are not vectorised, and may differ from the others in the last
    digit. The powers of each segment are computed apart, as they were when it was read apart, so
    that runs keep their numbers.

    Args:
        exponents: int64 `[B, ...]`, ordered by segment.
        counts: rows of each segment.
    """
    return torch.cat([gamma**part for part in exponents.split(counts)])


def take_rows(array: Tensor, rows: Tensor) -> Tensor:
    """Return rows of an array, `array[rows]` for int64 `[B]`.

    Indexing copies entry by entry on a CPU, which for rows of images takes 18 times as long.
    """
    return array.index_select(0, rows)
