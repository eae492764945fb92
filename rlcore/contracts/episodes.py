"""Define an episode's outcome, and the frames of a filmed one. Numpy only.

Workers create these, tables and videos are made from them, and plugins receive them in the hooks of
a run. What is kept of an evaluated episode is :class:`rlcore.results.tables.EpisodeResult`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

import numpy as np

from rlcore.contracts.specs import Episode


@dataclass(frozen=True)
class EpisodeOutcome:
    """How one episode ended.

    Attributes:
        episode: its address.
        success: whether it succeeded at any step.
        episode_return: sum of rewards.
        length: env steps simulated.
        finished: false where the column ended before the episode did.
        infos: what the env measured besides, by name (`ChunkResult.infos`, at the end).
    """

    episode: Episode
    success: bool
    episode_return: float
    length: int
    finished: bool = True
    infos: Mapping[str, float] = field(default_factory=dict)


def mean_infos(of_each: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Means of what an env measured, by name, over the episodes that have it."""
    values: dict[str, list[float]] = {}
    for infos in of_each:
        for name, value in infos.items():
            values.setdefault(name, []).append(value)
    return {name: fmean(each) for name, each in sorted(values.items())}


@dataclass
class Footage:
    """A filmed episode, the first of its column; F frames, four lists of length F.

    Attributes:
        episode: its address.
        frames: uint8 `[H, W, 3]`.
        steps: env steps done when a frame was taken; 0 at the start, where the env films it.
        returns: sum of rewards up to then.
        successes: whether it had succeeded by then, as far as the env said: it says so once a
            chunk.
    """

    episode: Episode
    frames: list[np.ndarray] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    returns: list[float] = field(default_factory=list)
    successes: list[bool] = field(default_factory=list)

    def add_chunk(
        self,
        frames: Sequence[np.ndarray],
        *,
        step: int,
        total: float,
        rewards: np.ndarray,
        success: bool,
    ) -> None:
        """Append the frames of a chunk, in order; nothing if there are none.

        The last frames belong to the chunk's steps, those before them to its start.

        Args:
            step, total: env steps and sum of rewards before the chunk.
            rewards: of its executed steps, float `[S]`.
            success: after it.
        """
        if not frames:
            return
        known = bool(self.successes) and self.successes[-1]
        count = len(frames)
        steps = range(step + 1, step + 1 + len(rewards))
        self.frames.extend(frames)
        self.steps.extend([*[step] * count, *steps][-count:])
        self.returns.extend([*[total] * count, *(total + np.cumsum(rewards)).tolist()][-count:])
        self.successes.extend([known] * (count - 1) + [success])


@dataclass(frozen=True)
class Film:
    """One filmed episode.

    Attributes:
        footage: its frames with steps, returns and successes; at least one.
        task: the name of its task.
        sentence: the instruction that the policy got.
    """

    footage: Footage
    task: str
    sentence: str

    @property
    def success(self) -> bool:
        """Whether it succeeded."""
        return self.footage.successes[-1]
