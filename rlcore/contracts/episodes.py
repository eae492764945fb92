"""Define the outcome of an episode, and the frames of a filmed episode. Uses only numpy.

Workers create these objects, tables and videos are made from them, and plugins receive them in the
hooks of a run. For an evaluated episode, a run stores
:class:`rlcore.runs.tables.EpisodeResult`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

import numpy as np

from rlcore.contracts.specs import Episode


@dataclass(frozen=True)
class EpisodeOutcome:
    """The outcome of one episode.

    Attributes:
        episode: address of the episode.
        success: whether the episode succeeded at any step.
        episode_return: undiscounted sum of rewards.
        length: number of simulated env steps.
        finished: false if the column ended before the episode did.
        infos: further measurements of the env, by name: the finite values of `ChunkResult.infos`
            after the last chunk.
    """

    episode: Episode
    success: bool
    episode_return: float
    length: int
    finished: bool = True
    infos: Mapping[str, float] = field(default_factory=dict)


def mean_infos(episodes: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of each of the env's measurements over the episodes that have it, by name."""
    values: dict[str, list[float]] = {}
    for infos in episodes:
        for name, value in infos.items():
            values.setdefault(name, []).append(value)
    return {name: fmean(measured) for name, measured in sorted(values.items())}


@dataclass
class Footage:
    """A filmed episode, the first of its column: four lists of length F, for F frames.

    Attributes:
        episode: address of the episode.
        frames: frames, uint8 `[H, W, 3]` each.
        steps: number of env steps before each frame; 0 for the frame at the reset, if the env
            recorded one.
        returns: sum of rewards up to each frame.
        successes: whether the episode was known to have succeeded by each frame. Success is
            reported once a chunk, so only the last frame of a chunk has its result.
        instruction: the instruction that the policy got; "" until a chunk was played.
    """

    episode: Episode
    frames: list[np.ndarray] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    returns: list[float] = field(default_factory=list)
    successes: list[bool] = field(default_factory=list)
    instruction: str = ""

    def add_chunk(
        self,
        frames: Sequence[np.ndarray],
        *,
        step: int,
        total: float,
        rewards: np.ndarray,
        success: bool,
    ) -> None:
        """Append the frames of a chunk, in order.

        The last S frames belong to the S executed steps, earlier frames to the start of the chunk.

        Args:
            frames: frames, uint8 `[H, W, 3]` each; with an empty list, nothing is appended.
            step: number of env steps of the episode before the chunk.
            total: sum of rewards of the episode before the chunk.
            rewards: rewards of the executed steps, float `[S]`.
            success: whether the episode had succeeded by the end of the chunk.
        """
        if not frames:
            return
        succeeded_before = bool(self.successes) and self.successes[-1]
        count = len(frames)
        steps = range(step + 1, step + 1 + len(rewards))
        self.frames.extend(frames)
        self.steps.extend([*[step] * count, *steps][-count:])
        self.returns.extend([*[total] * count, *(total + np.cumsum(rewards)).tolist()][-count:])
        self.successes.extend([succeeded_before] * (count - 1) + [success])


@dataclass(frozen=True)
class LabelledFootage:
    """One filmed episode, with the texts that belong to it.

    Attributes:
        footage: at least one frame, with steps, returns and successes.
        task: name of the task.
        instruction: the instruction that the policy got.
    """

    footage: Footage
    task: str
    instruction: str

    @property
    def success(self) -> bool:
        """Return whether the episode had succeeded by the last frame."""
        return self.footage.successes[-1]
