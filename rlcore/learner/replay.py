"""Store decisions of past rollouts in a replay, sample them and compute their targets.

Each rollout is an immutable segment: the light arrays of all ranks, and the inputs of this rank.
Rows are numbered over the demonstrations and then over all segments, decision by decision in
canonical order, so every rank draws the same rows. The next inputs of a decision are the inputs of
the decision after it. Segments are saved by :mod:`rlcore.runs.replay_files`.

Legend: T chunks, N columns, M decisions, B rows, C actions, H the policy's horizon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rlcore.contracts.errors import AlgorithmError
from rlcore.contracts.learning import NStepTargets, RowKind
from rlcore.contracts.rng import generator
from rlcore.contracts.specs import EnvSpec, PolicySpec, ReplayNeeds
from rlcore.contracts.trajectory import Trajectory
from rlcore.demonstrations.datasets import SupervisedSamples
from rlcore.learner import collectives
from rlcore.learner.demonstration_rows import INPUTS, DemonstrationRows
from rlcore.rollout.columns import LIGHT, NO_DECISION, append, take
from rlcore.runs.replay_files import read_segment, segment_files, write_segment


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

    @property
    def is_local(self) -> Tensor:
        """Return for each decision whether this rank has its inputs: bool `[M]`."""
        return self.batch.sample_index[self.decisions] != NO_DECISION

    def inputs(self, rows: Tensor) -> dict[str, Tensor]:
        """Return the inputs of rows, which this rank must hold: `{name: [B, ...]}`."""
        chunk, column = (axis[rows] for axis in self.decisions)
        index = self.batch.sample_index[chunk, column]
        return {name: take_rows(array, index) for name, array in self.batch.inputs.items()}

    def actions(self, rows: Tensor) -> dict[str, Tensor]:
        """Return the chunks of rows as decided: `actions` float32 `[B, C, A]`."""
        chunk, column = (axis[rows] for axis in self.decisions)
        return {"actions": self.batch.actions[chunk, column]}

    def targets(self, rows: Tensor, horizon: int) -> dict[str, Tensor]:
        """Return actions `[B, H, A]` and mask `[B, H]`; see `action_targets` of
        :class:`rlcore.contracts.learning.Replay`."""
        chunk, column = (axis[rows] for axis in self.decisions)
        chunks = -(-horizon // self.batch.valid.shape[-1])  # rounded up
        positions, same_episode = _cells_from(self.batch, chunk, column, chunks)
        executed = (self.batch.valid[positions] & same_episode[..., None]).flatten(1)  # [B, n C]
        actions = self.batch.actions[positions].flatten(1, 2)
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
        chunk, column = (axis[rows] for axis in self.decisions)
        # n chunks with rewards, and the decision after them
        positions, same_episode = _cells_from(self.batch, chunk, column, chunks + 1)
        executed = self.batch.valid[positions] & same_episode[..., None]
        decided = executed.any(-1)
        executed[:, chunks:] = False
        steps = executed.flatten(1)  # [B, (n + 1) C]
        # the reward of the i-th executed step, from 0, is discounted by gamma^i
        power = gamma ** (steps.cumsum(1) - 1)
        rewards = torch.where(steps, self.batch.rewards[positions].flatten(1) * power, 0.0).sum(1)
        terminated = (self.batch.terminated[positions].flatten(1) & steps).any(1)
        truncated = (self.batch.truncated[positions].flatten(1) & steps).any(1) & ~terminated
        # a decision that no step executed is the one at the final observation
        has_inputs = self.batch.sample_index[positions] != NO_DECISION
        final = same_episode & ~decided & has_inputs & ~terminated[:, None]
        following = torch.where(final.any(1), final.int().argmax(1), chunks)[:, None]
        continues = (decided | final).gather(1, following).squeeze(1)
        discounts = torch.where(continues, gamma ** steps.sum(1), 0.0)
        after = tuple(axis.gather(1, following).squeeze(1) for axis in positions)
        # clamped, because the discount of a row without a next decision is 0
        index = self.batch.sample_index[after].clamp(min=0)
        inputs = {
            f"{INPUTS}{name}": take_rows(array, index) for name, array in self.batch.inputs.items()
        }
        returns = {"rewards": rewards.float(), "discounts": discounts.float()}
        known = {"valid": continues | terminated, "truncated": truncated}
        return {**returns, **known, "actions": self.batch.actions[after], **inputs}

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


class ReplayStore:
    """The replay of a learner; see :class:`rlcore.contracts.learning.Replay`.

    Args:
        needs: capacity and contents that the algorithm asks for.
        policy: its action horizon is the length of action targets.
        env: its action range limits action targets; None: no limit.
        device: device on which rows are returned. The replay itself is on the host.
    """

    def __init__(
        self, needs: ReplayNeeds, policy: PolicySpec, env: EnvSpec | None, device: torch.device
    ) -> None:
        self._needs = needs
        self._horizon = policy.action_horizon
        self._actions_per_chunk = policy.num_action_chunks
        self._device = device
        self._range = None if env is None else torch.tensor([env.action_low, env.action_high])
        self._demonstrations: list[DemonstrationRows] = []
        self._segments: list[Segment] = []
        self._renumber()

    def add_demonstrations(self, samples: SupervisedSamples, reward: float = 1.0) -> None:
        """Put demonstrations into the replay, in place of earlier ones.

        Args:
            reward: reward of their last steps, that of success in the env.
        """
        self._demonstrations = [DemonstrationRows(samples, self._actions_per_chunk, reward)]
        self._renumber()

    def add(self, number: int, batch: Trajectory) -> None:
        """Add a rollout, and drop the oldest rollouts that exceed the capacity.

        If the algorithm wants no failures, only columns with a successful episode are stored.

        Args:
            number: number of updates done before the rollout.
            batch: light arrays of all ranks, and the inputs that this rank holds.
        """
        if not self._needs.failures:
            successful = (batch.success & batch.valid.any(-1)).any(0).nonzero().squeeze(1)
            batch = take(batch, successful.tolist())
        decided = {
            name: array for name, array in batch.replay.items() if name in self._needs.outputs
        }
        stored = replace(batch, inputs=batch.inputs | decided, replay={})
        segment = Segment(number, collectives.world_size(), stored)
        if len(segment):
            self._segments.append(segment)
        while sum(segment.bytes for segment in self._segments) > self._needs.size:
            del self._segments[0]
        self._renumber()

    def _renumber(self) -> None:
        """Number the rows, after demonstrations or segments have changed."""
        self._sources: list[Any] = [*self._demonstrations, *self._segments]
        self._starts = torch.tensor([0, *map(len, self._sources)]).cumsum(0)
        demonstrations = sum(map(len, self._demonstrations))
        total = int(self._starts[-1])
        # torch.cat needs at least one tensor, so an empty one comes first here and below
        success = torch.cat(
            [torch.zeros(0, dtype=torch.bool), *(s.success for s in self._segments)]
        )
        self._rows: dict[RowKind, Tensor] = {
            "demonstrations": torch.arange(demonstrations),
            "all": torch.arange(demonstrations, total),
            "successes": demonstrations + success.nonzero().squeeze(1),
            "failures": demonstrations + (~success).nonzero().squeeze(1),
        }
        tasks = [torch.zeros(0), *(s.batch.task[s.decisions][s.success] for s in self._segments)]
        _, task, counts = torch.cat(tasks).unique(return_inverse=True, return_counts=True)
        # successful rows are drawn with equal probability for each task
        self._chances = 1 / counts[task].double() / len(counts)
        local = (source.is_local for source in self._sources)
        self._is_local = torch.cat([torch.zeros(0).bool(), *local])

    # -- rows ---------------------------------------------------------------------------------

    def count(self, among: RowKind = "all") -> int:
        return len(self._rows[among])

    def sample(self, count: int, among: RowKind, key: Sequence[int | str]) -> Tensor:
        """Draw rows with replacement, int64 `[count]`; successes are balanced across tasks.

        Args:
            key: key of the random draw; equal keys draw the same rows on every rank.

        Raises:
            AlgorithmError: the replay has no such rows.
        """
        rows = self._rows[among]
        if not len(rows):
            raise AlgorithmError(
                f"the algorithm draws {among} from its replay, which has none",
                hint="check learning.replay.count first",
            )
        chances = self._chances.numpy() if among == "successes" else None
        return rows[torch.from_numpy(generator(*key, among).choice(len(rows), count, p=chances))]

    def local_rows(self, rows: Tensor) -> Tensor:
        """Return those of the rows that this rank trains on, in their order."""
        return rows[self._is_local[rows]]

    def inputs(self, rows: Tensor) -> dict[str, Tensor]:
        return self._gather(rows, lambda source, local: source.inputs(local))

    def policy_inputs(self, rows: Tensor) -> dict[str, Tensor]:
        """Return the inputs of rows without the outputs of decisions that are stored with them."""
        inputs = self.inputs(rows)
        return {name: inputs[name] for name in inputs if name not in self._needs.outputs}

    def actions(self, rows: Tensor) -> Tensor:
        return self._gather(rows, lambda source, local: source.actions(local))["actions"]

    def action_targets(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        targets = self._gather(rows, lambda source, local: source.targets(local, self._horizon))
        actions = targets["actions"]
        if self._range is not None:
            low, high = self._range.to(actions.device)
            actions = actions.clamp(low, high)
        return actions, targets["mask"]

    def successes(self) -> SupervisedSamples | None:
        """Return the decisions of successful episodes for supervised training; None if there are
        no such rows. Works only on a single rank, because it reads the inputs of all rows."""
        rows = self._rows["successes"]
        if not len(rows):
            return None
        return SupervisedSamples(self.policy_inputs(rows), *self.action_targets(rows))

    def demonstration(self, rows: Tensor) -> Tensor:
        (source,) = self._demonstrations
        return source.number[rows]

    def n_step_targets(self, rows: Tensor, *, chunks: int, gamma: float) -> NStepTargets:
        arrays = self._gather(
            rows, lambda source, local: source.n_step_targets(local, chunks, gamma)
        )
        names = ("rewards", "discounts", "valid", "truncated", "actions")
        light = {name: arrays.pop(name) for name in names}
        inputs = {name.removeprefix(INPUTS): array for name, array in arrays.items()}
        return NStepTargets(**light, inputs=inputs)

    def _gather(
        self, rows: Tensor, read: Callable[[Any, Tensor], Mapping[str, Tensor]]
    ) -> dict[str, Tensor]:
        """Gather rows across demonstrations and segments, in the order of `rows`, on the device.

        Args:
            read: function that returns the arrays of one source, given row numbers within it.
        """
        owner = torch.bucketize(rows, self._starts[1:], right=True)
        parts = []
        positions = []
        for index in owner.unique().tolist():
            position = (owner == index).nonzero().squeeze(1)
            parts.append(read(self._sources[index], rows[position] - self._starts[index]))
            positions.append(position)
        order = torch.cat(positions).argsort()
        return {
            name: take_rows(torch.cat([part[name] for part in parts]), order).to(self._device)
            for name in parts[0]
        }

    # -- files --------------------------------------------------------------------------------

    def save(self, folder: Path, known: Iterable[str]) -> list[tuple[int, int]]:
        """Write this rank's files of the segments into a checkpoint's folder.

        Args:
            folder: folder of the checkpoint.
            known: names of files that the checkpoint takes from an earlier one; they are skipped.

        Returns:
            (number, parts) of every segment, for :meth:`load`.
        """
        stored_names = set(known)
        for segment in self._segments:
            names = segment_files(segment.number, segment.parts)
            name = names[collectives.rank() % segment.parts]
            # a segment of another world size was loaded from files, which are stored already
            if segment.parts == collectives.world_size() and name not in stored_names:
                columns = segment.local_columns()
                light = {field: getattr(columns, field) for field in LIGHT}
                inputs = {f"{INPUTS}{field}": array for field, array in columns.inputs.items()}
                write_segment(folder / name, {**light, **inputs})
        return [(segment.number, segment.parts) for segment in self._segments]

    def load(self, folder: Path, saved: Iterable[tuple[int, int]]) -> None:
        """Load the segments of a checkpoint, for all ranks at once: rank r of n reads every n-th
        file, from file r on.

        Args:
            folder: folder of the checkpoint.
            saved: the result of :meth:`save`.

        Raises:
            CheckpointError: a file is missing or damaged.
        """
        self._segments = []
        for number, parts in saved:
            names = segment_files(number, parts)[collectives.rank() :: collectives.world_size()]
            trajectories = [_trajectory(read_segment(folder / name)) for name in names]
            batch = collectives.whole_batch(append(trajectories) if trajectories else None)
            if not self._needs.final_decisions:  # the run stored them under other settings
                batch.sample_index[~batch.valid.any(-1)] = NO_DECISION
            self._segments.append(Segment(number, parts, batch))
        self._renumber()


def take_rows(array: Tensor, rows: Tensor) -> Tensor:
    """Return rows of an array, `array[rows]` for int64 `[B]`.

    Indexing copies entry by entry on a CPU, which for rows of images takes 18 times as long.
    """
    return array.index_select(0, rows)


def _cells_from(
    batch: Trajectory, chunk: Tensor, column: Tensor, count: int
) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """Find `count` consecutive cells of a column, beginning with each of B decisions.

    Returns:
        (chunk, column), int64 `[B, n]` each, clamped to the last chunk of the batch; and whether
        the cell is in the batch and has the number of the same episode, bool `[B, n]`. Cells behind
        a column may have that number too: no step was executed there.
    """
    chunks = chunk[:, None] + torch.arange(count)
    positions = (chunks.clamp(max=len(batch.valid) - 1), column[:, None].expand_as(chunks))
    same_episode = batch.episode[positions] == batch.episode[chunk, column][:, None]
    return positions, (chunks < len(batch.valid)) & same_episode


def _trajectory(tensors: Mapping[str, Tensor]) -> Trajectory:
    """Return the trajectory of a segment's file."""
    light = {name: tensors[name] for name in LIGHT}
    inputs = {
        name.removeprefix(INPUTS): tensor
        for name, tensor in tensors.items()
        if name.startswith(INPUTS)
    }
    return Trajectory(**light, inputs=inputs, replay={})
