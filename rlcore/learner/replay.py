"""Keep decisions beyond the update after them, draw from them, and make targets of them.

Each rollout is a segment, never changed: the whole batch with the inputs that this rank holds.
Rows are numbered over demonstrations and then all segments, decision by decision in canonical
order, so every rank draws the same ones. A decision's next inputs are those of the one after it.
Its files are those of :mod:`rlcore.run_folder.replay_files`.

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
from rlcore.contracts.learning import Among, Following
from rlcore.contracts.rng import generator
from rlcore.contracts.specs import EnvSpec, PolicySpec, ReplayNeeds
from rlcore.contracts.trajectory import Trajectory
from rlcore.demonstrations.datasets import SupervisedSamples
from rlcore.learner import collectives
from rlcore.rollout.columns import LIGHT, NO_DECISION, append, take
from rlcore.run_folder.replay_files import read_segment, segment_files, write_segment

_INPUTS = "inputs."  # how the names of such tensors begin in a file


@dataclass(frozen=True)
class Segment:
    """One rollout.

    Attributes:
        number: updates done when it was made.
        parts: processes that wrote its files.
        batch: light arrays of all ranks, and the inputs that this one holds.
    """

    number: int
    parts: int
    batch: Trajectory

    @cached_property
    def decisions(self) -> tuple[Tensor, Tensor]:
        """(chunk, column) of each decision, column by column: int64 `[M]` each."""
        column, chunk = self.batch.valid.any(-1).T.nonzero(as_tuple=True)
        return chunk, column

    def __len__(self) -> int:
        return len(self.decisions[0])

    @cached_property
    def success(self) -> Tensor:
        """bool `[M]`: whether the episode of the decision succeeded, sooner or later."""
        chunk, column = self.decisions
        won = self.batch.success & self.batch.valid.any(-1)
        same = self.batch.episode[chunk, column][:, None] == self.batch.episode.T[column]
        return (same & won.T[column]).any(-1)

    @property
    def is_local(self) -> Tensor:
        """bool `[M]`: whether this rank has its inputs."""
        return self.batch.sample_index[self.decisions] != NO_DECISION

    def inputs(self, rows: Tensor) -> dict[str, Tensor]:
        chunk, column = (place[rows] for place in self.decisions)
        at = self.batch.sample_index[chunk, column]
        return {name: array[at] for name, array in self.batch.inputs.items()}

    def actions(self, rows: Tensor) -> dict[str, Tensor]:
        chunk, column = (place[rows] for place in self.decisions)
        return {"actions": self.batch.actions[chunk, column]}

    def targets(self, rows: Tensor, horizon: int) -> dict[str, Tensor]:
        """Actions `[B, H, A]` and mask `[B, H]`: see :class:`rlcore.contracts.learning.Replay`."""
        chunk, column = (place[rows] for place in self.decisions)
        ahead, same = _ahead(self.batch, chunk, column, -(-horizon // self.batch.valid.shape[-1]))
        executed = (self.batch.valid[ahead] & same[..., None]).flatten(1)  # [B, n C]
        actions = self.batch.actions[ahead].flatten(1, 2)
        order = (~executed).int().argsort(dim=1, stable=True)[:, :horizon]  # executed ones first
        count = executed.sum(1, keepdim=True)
        place = torch.arange(horizon).expand(len(rows), -1)
        last = order.gather(1, place.minimum(count - 1))
        return {
            "actions": actions.gather(1, last[..., None].expand(-1, -1, actions.shape[-1])),
            "mask": place < count,
        }

    def following(self, rows: Tensor, chunks: int, gamma: float) -> dict[str, Tensor]:
        """Rewards, discounts, known and `inputs.NAME`: see :class:`Following`."""
        chunk, column = (place[rows] for place in self.decisions)
        ahead, same = _ahead(self.batch, chunk, column, chunks + 1)
        executed = self.batch.valid[ahead] & same[..., None]
        executed[:, chunks:] = False
        steps = executed.flatten(1)  # [B, (n + 1) C]
        # the i-th executed step counts gamma^i
        power = gamma ** (steps.cumsum(1) - 1)
        rewards = torch.where(steps, self.batch.rewards[ahead].flatten(1) * power, 0.0).sum(1)
        goes_on = same[:, chunks]
        discounts = torch.where(goes_on, gamma ** steps.sum(1), 0.0)
        over = (self.batch.terminated[ahead].flatten(1) & steps).any(1)
        then = self.batch.sample_index[tuple(axis[:, chunks] for axis in ahead)].clamp(min=0)
        inputs = {f"{_INPUTS}{name}": array[then] for name, array in self.batch.inputs.items()}
        numbers = {"rewards": rewards.float(), "discounts": discounts.float()}
        return {**numbers, "known": goes_on | over, **inputs}

    def bytes(self) -> int:
        """Of all ranks: light arrays of whole columns, and the inputs of decisions."""
        light = [getattr(self.batch, name)[0, 0] for name in LIGHT]
        chunks = len(self.batch.valid) * int(self.batch.valid.any(-1).any(0).sum())
        total = chunks * sum(one.numel() * one.element_size() for one in light)
        for array in self.batch.inputs.values():
            total += len(self) * array.shape[1:].numel() * array.element_size()
        return total

    def local_columns(self) -> Trajectory:
        """The columns whose inputs are here."""
        mine = (self.batch.sample_index != NO_DECISION).any(0).nonzero().squeeze(1)
        return take(self.batch, mine.tolist())


@dataclass(frozen=True)
class DemonstrationRows:
    """Demonstrations, which every rank has: rank r holds every n-th of them."""

    samples: SupervisedSamples

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def is_local(self) -> Tensor:
        return torch.arange(len(self)) % collectives.world_size() == collectives.rank()

    def inputs(self, rows: Tensor) -> dict[str, Tensor]:
        return {name: array[rows] for name, array in self.samples.inputs.items()}

    def targets(self, rows: Tensor, horizon: int) -> dict[str, Tensor]:
        return {"actions": self.samples.actions[rows], "mask": self.samples.mask[rows]}


class ReplayStore:
    """See :class:`rlcore.contracts.learning.Replay`.

    Args:
        needs: of the algorithm.
        policy: its horizon.
        env: its range of actions; None: any.
        device: where rows are wanted.
    """

    def __init__(
        self, needs: ReplayNeeds, policy: PolicySpec, env: EnvSpec | None, device: torch.device
    ) -> None:
        self._needs, self._horizon, self._device = needs, policy.action_horizon, device
        channels = () if env is None else env.actions
        bounds = [(channel.low, channel.high) for channel in channels for _ in range(channel.size)]
        self._range = torch.tensor(bounds).T if bounds else None
        self._taught: list[DemonstrationRows] = []
        self._segments: list[Segment] = []
        self._renumber()

    def teach(self, samples: SupervisedSamples) -> None:
        """Have demonstrations among the rows."""
        self._taught = [DemonstrationRows(samples)]
        self._renumber()

    def add(self, number: int, batch: Trajectory) -> None:
        """Keep a rollout, or its successful columns; give up the oldest where there is no room.

        Args:
            batch: of all ranks, with the inputs that this one holds.
        """
        if not self._needs.failures:
            won = (batch.success & batch.valid.any(-1)).any(0).nonzero().squeeze(1)
            batch = take(batch, won.tolist())
        decided = {name: one for name, one in batch.replay.items() if name in self._needs.decided}
        kept = replace(batch, inputs=batch.inputs | decided, replay={})
        segment = Segment(number, collectives.world_size(), kept)
        if len(segment):
            self._segments.append(segment)
        while sum(one.bytes() for one in self._segments) > self._needs.size:
            del self._segments[0]
        self._renumber()

    def _renumber(self) -> None:
        self._kinds: list[Any] = [*self._taught, *self._segments]
        self._starts = torch.tensor([0, *map(len, self._kinds)]).cumsum(0)
        shown, total = sum(map(len, self._taught)), int(self._starts[-1])
        won = torch.cat([torch.zeros(0, dtype=torch.bool), *(s.success for s in self._segments)])
        self._rows: dict[Among, Tensor] = {
            "demonstrations": torch.arange(shown),
            "all": torch.arange(shown, total),
            "successes": shown + won.nonzero().squeeze(1),
            "failures": shown + (~won).nonzero().squeeze(1),
        }
        tasks = [torch.zeros(0), *(s.batch.task[s.decisions][s.success] for s in self._segments)]
        _, of, counts = torch.cat(tasks).unique(return_inverse=True, return_counts=True)
        self._chances = 1 / counts[of].double() / len(counts)  # each task alike
        self._held = torch.cat([torch.zeros(0).bool(), *(kind.is_local for kind in self._kinds)])

    # -- rows ---------------------------------------------------------------------------------

    def count(self, among: Among = "all") -> int:
        return len(self._rows[among])

    def draw(self, count: int, among: Among, key: Sequence[int | str]) -> Tensor:
        """Rows int64 `[count]`, with replacement; of successes each task as often as another.

        Raises:
            AlgorithmError: there are none.
        """
        rows = self._rows[among]
        if not len(rows):
            raise AlgorithmError(
                f"the algorithm draws {among} from its replay, which has none",
                hint="ask learning.replay.count first",
            )
        chances = self._chances.numpy() if among == "successes" else None
        return rows[torch.from_numpy(generator(*key, among).choice(len(rows), count, p=chances))]

    def held(self, rows: Tensor) -> Tensor:
        """Those of some rows that this rank has the inputs of, in their order."""
        return rows[self._held[rows]]

    def inputs(self, rows: Tensor) -> dict[str, Tensor]:
        return self._each(rows, lambda kind, some: kind.inputs(some))

    def actions(self, rows: Tensor) -> Tensor:
        return self._each(rows, lambda kind, some: kind.actions(some))["actions"]

    def action_targets(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        found = self._each(rows, lambda kind, some: kind.targets(some, self._horizon))
        actions = found["actions"]
        if self._range is not None:
            low, high = self._range.to(actions.device)
            actions = actions.clamp(low, high)
        return actions, found["mask"]

    def successes(self) -> SupervisedSamples | None:
        """Decisions of successful episodes as samples of supervised training, where this rank is
        the only one; None: there are none."""
        rows = self._rows["successes"]
        if not len(rows):
            return None
        return SupervisedSamples(self.inputs(rows), *self.action_targets(rows))

    def following(self, rows: Tensor, *, chunks: int, gamma: float) -> Following:
        found = self._each(rows, lambda kind, some: kind.following(some, chunks, gamma))
        light = {name: found.pop(name) for name in ("rewards", "discounts", "known")}
        inputs = {name.removeprefix(_INPUTS): array for name, array in found.items()}
        return Following(**light, inputs=inputs)

    def _each(
        self, rows: Tensor, ask: Callable[[Any, Tensor], Mapping[str, Tensor]]
    ) -> dict[str, Tensor]:
        """Ask the segments of some rows, and put the answers into the order of the rows."""
        of = torch.bucketize(rows, self._starts[1:], right=True)
        parts, order = [], []
        for index in of.unique().tolist():
            there = (of == index).nonzero().squeeze(1)
            parts.append(ask(self._kinds[index], rows[there] - self._starts[index]))
            order.append(there)
        back = torch.cat(order).argsort()
        return {
            name: torch.cat([part[name] for part in parts])[back].to(self._device)
            for name in parts[0]
        }

    # -- files --------------------------------------------------------------------------------

    def save(self, folder: Path, known: Iterable[str]) -> list[tuple[int, int]]:
        """Write the files of this rank that are not known into a checkpoint's folder; gives
        (number, parts) of all segments."""
        known = set(known)
        for one in self._segments:
            name = segment_files(one.number, one.parts)[collectives.rank() % one.parts]
            if one.parts == collectives.world_size() and name not in known:
                own = one.local_columns()
                light = {field: getattr(own, field) for field in LIGHT}
                inputs = {f"{_INPUTS}{field}": array for field, array in own.inputs.items()}
                write_segment(folder / name, {**light, **inputs})
        return [(one.number, one.parts) for one in self._segments]

    def load(self, folder: Path, saved: Iterable[tuple[int, int]]) -> None:
        """Take up the segments that :meth:`save` named, all ranks at once: each reads every n-th
        file.

        Raises:
            CheckpointError: a file is missing or damaged.
        """
        self._segments = []
        for number, parts in saved:
            mine = segment_files(number, parts)[collectives.rank() :: collectives.world_size()]
            read = [_trajectory(read_segment(folder / name)) for name in mine]
            batch = collectives.whole_batch(append(read) if read else None)
            self._segments.append(Segment(number, parts, batch))
        self._renumber()


def _ahead(
    batch: Trajectory, chunk: Tensor, column: Tensor, count: int
) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """The n decisions from each of some rows on.

    Returns:
        (chunk, column), int64 `[B, n]` each, where the last chunk stands for those beyond it; and
        bool `[B, n]`: whether they are made, and of the row's episode.
    """
    later = chunk[:, None] + torch.arange(count)
    at = (later.clamp(max=len(batch.valid) - 1), column[:, None].expand_as(later))
    same = (later < len(batch.valid)) & batch.valid[at].any(-1)
    return at, (same & (batch.episode[at] == batch.episode[chunk, column][:, None]))


def _trajectory(tensors: Mapping[str, Tensor]) -> Trajectory:
    light = {name: tensors[name] for name in LIGHT}
    inputs = {
        name.removeprefix(_INPUTS): one for name, one in tensors.items() if name.startswith(_INPUTS)
    }
    return Trajectory(**light, inputs=inputs, replay={})
