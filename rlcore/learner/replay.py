"""Store decisions of past rollouts in a replay, sample them and compute their targets.

Each rollout is an immutable segment: the light arrays of all ranks, and the inputs of this rank.
Rows are numbered over the demonstrations and then over all segments, decision by decision in
canonical order, so every rank draws the same rows. Demonstrations are read by
:mod:`rlcore.learner.demonstration_rows`, segments by :mod:`rlcore.learner.rollout_rows`; segments
are saved by :mod:`rlcore.runs.replay_files`.

Legend: M decisions, B rows, C actions, H the policy's horizon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
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
from rlcore.learner.rollout_rows import RolloutRows, Segment, take_rows
from rlcore.rollout.columns import LIGHT, NO_DECISION, append, take
from rlcore.runs.replay_files import read_segment, segment_files, write_segment


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
        """Add a rollout, and drop the oldest others that exceed the capacity.

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
        while len(self._segments) > 1 and self._bytes > self._needs.size:
            del self._segments[0]
        self._renumber()

    @property
    def _bytes(self) -> int:
        return sum(segment.bytes for segment in self._segments)

    @property
    def excess(self) -> int:
        """Return by how many bytes the newest rollout alone exceeds the capacity; 0 if it fits."""
        return max(self._bytes - self._needs.size, 0)

    def _renumber(self) -> None:
        """Number the rows, after demonstrations or segments have changed."""
        self._sources: list[Any] = [*self._demonstrations]
        if self._segments:
            self._sources.append(RolloutRows(self._segments))
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
        """Gather rows of demonstrations and rollouts, in the order of `rows`, on the device.

        Without rows the arrays have the names and shapes of others, and no row.

        Args:
            read: function that returns the arrays of one source, given row numbers within it.
        """
        if len(self._sources) == 1:
            (source,) = self._sources
            return {name: array.to(self._device) for name, array in read(source, rows).items()}
        owner = torch.bucketize(rows, self._starts[1:], right=True)
        parts = []
        positions = []
        # of a step's rows a rank may hold none: then the first source tells names and shapes
        for index in owner.unique().tolist() or [0]:
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


def _trajectory(tensors: Mapping[str, Tensor]) -> Trajectory:
    """Return the trajectory of a segment's file."""
    light = {name: tensors[name] for name in LIGHT}
    inputs = {
        name.removeprefix(INPUTS): tensor
        for name, tensor in tensors.items()
        if name.startswith(INPUTS)
    }
    return Trajectory(**light, inputs=inputs, replay={})
