"""Read decisions of rollouts as rows of a replay: inputs, chunks, and n-step targets.

    segments (one a rollout) -> light arrays one behind the other [K]   read at once for all rows
                             -> inputs of each segment                  read segment by segment

A row is a decision. Rows are numbered segment by segment, and within one column by column. The next
inputs of a decision are those of the decision after it.

Legend: K cells, M decisions, B rows, C actions, H the policy's horizon.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from rlcore.contracts.trajectory import Trajectory
from rlcore.learner import collectives
from rlcore.learner.demonstration_rows import INPUTS
from rlcore.rollout.columns import LIGHT, NO_DECISION, take

READ = ("valid", "rewards", "terminated", "truncated", "actions", "episode", "sample_index")
"""Light arrays of segments that rows are read from."""


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
        """Size on all ranks in bytes: light arrays of columns with a decision, twice those of
        :data:`READ`, and the inputs of all decisions, final ones included. To be read on all ranks
        at once."""
        light = [getattr(self.batch, name)[0, 0] for name in (*LIGHT, *READ)]
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

    Reading the light arrays of each segment apart would take longer with every further rollout, so
    those of :data:`READ` are kept once more, as arrays `[K, ...]` over the cells of all segments: a
    cell is one chunk of one column, with or without a decision, and cells are numbered segment by
    segment, and within one column by column.

    Args:
        segments: at least one, in order.
    """

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._segments = segments
        flat = {
            name: torch.cat(
                [getattr(each.batch, name).transpose(0, 1).flatten(0, 1) for each in segments]
            )
            for name in READ
        }
        self._valid = flat["valid"]
        self._rewards = flat["rewards"]
        self._terminated = flat["terminated"]
        self._truncated = flat["truncated"]
        self._actions = flat["actions"]
        self._episode = flat["episode"]
        self._sample_index = flat["sample_index"]  # within the segment
        first_cell = 0
        last_cells = []
        first_cells = [0]
        for segment in segments:
            chunks, columns = segment.batch.valid.shape[:2]
            last = first_cell + chunks * torch.arange(1, columns + 1) - 1
            last_cells.append(last.repeat_interleave(chunks))
            first_cell += chunks * columns
            first_cells.append(first_cell)
        self._last_cell = torch.cat(last_cells)  # of the cell's column
        self._first_cell = torch.tensor(first_cells)
        self._cell = self._valid.any(-1).nonzero().squeeze(1)  # of each row

    def __len__(self) -> int:
        return len(self._cell)

    @property
    def is_local(self) -> Tensor:
        """Return for each decision whether this rank has its inputs: bool `[M]`."""
        return self._sample_index[self._cell] != NO_DECISION

    def _cells_from(self, cells: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Find `count` consecutive cells of a column, beginning with each of B cells.

        Returns:
            The cells, int64 `[B, n]`, clamped to the last one of the column; and whether each is in
            the column and has the number of the same episode, bool `[B, n]`. Cells behind the last
            episode may have that number too: no step was executed there.
        """
        last = self._last_cell[cells][:, None]
        following = cells[:, None] + torch.arange(count)
        found = following.minimum(last)
        same_episode = self._episode[found] == self._episode[cells][:, None]
        return found, (following <= last) & same_episode

    def _segment(self, cells: Tensor) -> Tensor:
        """Return the segments of cells, int64 `[B]`."""
        return torch.bucketize(cells, self._first_cell[1:], right=True)

    def inputs(self, rows: Tensor) -> dict[str, Tensor]:
        """Return the inputs of rows, which this rank must hold: `{name: [B, ...]}`."""
        return self._inputs_of(self._cell[rows])

    def _inputs_of(self, cells: Tensor) -> dict[str, Tensor]:
        """Return the inputs of the decisions of cells `[B]`; any of its segment for a cell without
        a decision."""
        segments, order = self._segment(cells).sort(stable=True)
        samples = self._sample_index[cells[order]].clamp(min=0)
        counts = segments.bincount(minlength=len(self._segments)).tolist()
        parts = [
            {name: take_rows(array, index) for name, array in segment.batch.inputs.items()}
            for segment, index in zip(self._segments, samples.split(counts), strict=True)
            if len(index) or not len(cells)  # without rows, empty arrays of the same names
        ]
        back = order.argsort()
        return {
            name: take_rows(torch.cat([part[name] for part in parts]), back) for name in parts[0]
        }

    def actions(self, rows: Tensor) -> dict[str, Tensor]:
        """Return the chunks of rows as decided: `actions` float32 `[B, C, A]`."""
        return {"actions": self._actions[self._cell[rows]]}

    def targets(self, rows: Tensor, horizon: int) -> dict[str, Tensor]:
        """Return actions `[B, H, A]` and mask `[B, H]`; see `action_targets` of
        :class:`rlcore.contracts.learning.Replay`."""
        chunks = -(-horizon // self._valid.shape[-1])  # rounded up
        cells, same_episode = self._cells_from(self._cell[rows], chunks)
        executed = (self._valid[cells] & same_episode[..., None]).flatten(1)  # [B, n C]
        actions = self._actions[cells].flatten(1, 2)
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
        segments, order = self._segment(self._cell[rows]).sort(stable=True)
        counts = segments.bincount(minlength=len(self._segments)).tolist()
        # n chunks with rewards, and the decision after them
        cells, same_episode = self._cells_from(self._cell[rows[order]], chunks + 1)
        executed = self._valid[cells] & same_episode[..., None]
        decided = executed.any(-1)
        executed[:, chunks:] = False
        steps = executed.flatten(1)  # [B, (n + 1) C]
        # the reward of the i-th executed step, from 0, is discounted by gamma^i
        power = _powers(gamma, steps.cumsum(1) - 1, counts)
        rewards = torch.where(steps, self._rewards[cells].flatten(1) * power, 0.0).sum(1)
        terminated = (self._terminated[cells].flatten(1) & steps).any(1)
        truncated = (self._truncated[cells].flatten(1) & steps).any(1) & ~terminated
        # a decision that no step executed is the one at the final observation
        has_inputs = self._sample_index[cells] != NO_DECISION
        final = same_episode & ~decided & has_inputs & ~terminated[:, None]
        following = torch.where(final.any(1), final.int().argmax(1), chunks)[:, None]
        continues = (decided | final).gather(1, following).squeeze(1)
        discounts = torch.where(continues, _powers(gamma, steps.sum(1), counts), 0.0)
        after = cells.gather(1, following).squeeze(1)
        back = order.argsort()
        targets = {
            "rewards": rewards.float(),
            "discounts": discounts.float(),
            "valid": continues | terminated,
            "truncated": truncated,
            "actions": self._actions[after],
        }
        inputs = self._inputs_of(after[back])  # a row without a next decision has discount 0
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
