"""Cut action chunks from a demonstration, the targets of a policy that predicts several actions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rlcore.contracts.protocols import Demonstration, Observation


def action_chunks(
    actions: np.ndarray, steps: Sequence[int] | np.ndarray, horizon: int
) -> tuple[np.ndarray, np.ndarray]:
    """The `horizon` actions from each step on: `[B, H, A]`, the last one repeated past the end,
    and a mask bool `[B, H]`, false past the end.

    Args:
        actions: `[L, A]` of one episode.
        steps: B step numbers in [0, L).
    """
    index = np.asarray(steps)[:, None] + np.arange(horizon)
    return actions[np.minimum(index, len(actions) - 1)], index < len(actions)


def demonstrated(
    demonstration: Demonstration, frame_index: Sequence[int], horizon: int, max_episode_steps: int
) -> tuple[Observation, np.ndarray, np.ndarray]:
    """Observations of the given frames, the actions from there on `[B, H, A]`, and their mask bool
    `[B, H]`."""
    index = np.asarray(frame_index, dtype=np.int64)
    steps = demonstration.frame_steps[index]
    observation: Observation = {
        "cameras": {name: frames[index] for name, frames in demonstration.frames.items()},
        "states": demonstration.states[steps],
        "task_descriptions": [demonstration.task_description] * len(index),
        "elapsed": (steps / max_episode_steps).astype(np.float32),
    }
    return observation, *action_chunks(demonstration.actions, steps, horizon)
