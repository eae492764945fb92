"""Cut action chunks from demonstrations: targets of policies that predict several actions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rlcore.contracts.protocols import Demonstration, Observation


def action_chunks(
    actions: np.ndarray, steps: Sequence[int] | np.ndarray, horizon: int
) -> tuple[np.ndarray, np.ndarray]:
    """Cut the chunk of actions that begins at each of B steps.

    Args:
        actions: `[L, A]`, of one episode.
        steps: B step numbers in [0, L).
        horizon: H, actions per chunk.

    Returns:
        Chunks `[B, H, A]`, which repeat the last action past the end of the episode, and a mask
        bool `[B, H]`, false past the end.
    """
    index = np.asarray(steps)[:, None] + np.arange(horizon)
    return actions[np.minimum(index, len(actions) - 1)], index < len(actions)


def demonstrated(
    demonstration: Demonstration, frame_index: Sequence[int], horizon: int, max_episode_steps: int
) -> tuple[Observation, np.ndarray, np.ndarray]:
    """Return observations and action chunks of B frames of a demonstration.

    Args:
        demonstration: one episode.
        frame_index: B indices of frames, which may be fewer than steps (`frame_steps`).
        horizon: H, actions per chunk.
        max_episode_steps: the env's time limit in steps, for the elapsed fraction.

    Returns:
        Observations of B rows, the actions from each frame's step on `[B, H, A]`, and their mask
        bool `[B, H]`; see :func:`action_chunks`.
    """
    index = np.asarray(frame_index, dtype=np.int64)
    steps = demonstration.frame_steps[index]
    observation: Observation = {
        "cameras": {name: frames[index] for name, frames in demonstration.frames.items()},
        "states": demonstration.states[steps],
        "task_descriptions": [demonstration.instruction] * len(index),
        "elapsed": (steps / max_episode_steps).astype(np.float32),
    }
    return observation, *action_chunks(demonstration.actions, steps, horizon)
