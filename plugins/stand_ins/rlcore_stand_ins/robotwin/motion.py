"""Time a chunk of joint targets, as RoboTwin does in `gen_sparse_reward_data`.

An arm's targets are waypoints of one path that begins at its previous target. The path is timed as
a whole, from rest to rest, as fast as the limits of the joints allow. Both arms begin and end
together, and the grippers' values are spread evenly over that time. So the duration of a chunk
depends on the length of its path.

One difference from RoboTwin: an arm whose targets don't change takes `STILL` steps. RoboTwin adds
noise to the path of such an arm, which then takes about ten steps, too few for the fingers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

STEP = 1 / 250  # seconds of a step of physics
STILL = 50  # steps of an arm that does not move, or whose path can't be timed
LONGEST = 500  # steps of an arm; a longer motion is subsampled to this number
SAME = 1e-5  # targets that differ by less in each joint are one waypoint, rad


class Timing(Protocol):
    """Interface of mplib's `Planner.TOPP`, which computes the fastest motion along a path `[P, 6]`.

    It returns times, positions `[N, 6]`, velocities `[N, 6]`, accelerations, and the duration in s.
    It raises RuntimeError if the path can't be timed.
    """

    def __call__(
        self, path: np.ndarray, step: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, float]: ...


@dataclass(frozen=True)
class Motion:
    """A chunk in steps of physics.

    Attributes:
        positions, velocities: those of each arm's joints, `[N, 6]`.
        grippers: values of both grippers, `[N, 2]`.
        ends: last step of each action, `[C]`.
    """

    positions: tuple[np.ndarray, np.ndarray]
    velocities: tuple[np.ndarray, np.ndarray]
    grippers: np.ndarray
    ends: np.ndarray


def motion(targets: np.ndarray, actions: np.ndarray, timing: Timing) -> Motion:
    """Time a chunk.

    Args:
        targets: current targets of both arms, `[14]`: six joints and the gripper of each.
        actions: next targets, `[C, 14]`.
        timing: see :class:`Timing`.
    """
    arms = [
        _timed(np.vstack([targets[joints], actions[:, joints]]), timing)
        for joints in (slice(0, 6), slice(7, 13))
    ]
    length = max(len(positions) for positions, _ in arms)
    steps = np.arange(1, length + 1)
    indices = [-(-steps * len(positions) // length) - 1 for positions, _ in arms]  # rounded up
    values = np.vstack([targets[[6, 13]], actions[:, [6, 13]]])
    count = len(actions)
    grippers = [
        np.interp(steps * count / length, np.arange(count + 1), column) for column in values.T
    ]
    (left_positions, left_velocities), (right_positions, right_velocities) = arms
    left, right = indices
    return Motion(
        positions=(left_positions[left], right_positions[right]),
        velocities=(left_velocities[left], right_velocities[right]),
        grippers=np.stack(grippers, axis=1),
        ends=-(-np.arange(1, count + 1) * length // count) - 1,
    )


def _timed(path: np.ndarray, timing: Timing) -> tuple[np.ndarray, np.ndarray]:
    """Return positions and velocities `[N, 6]` along waypoints `[P, 6]`."""
    waypoints = [path[0]]
    for waypoint in path[1:]:
        if (abs(waypoint - waypoints[-1]) > SAME).any():
            waypoints.append(waypoint)
    motionless = np.repeat(path[-1:], STILL, axis=0), np.zeros((STILL, path.shape[1]))
    if len(waypoints) == 1:
        return motionless
    try:
        _, positions, velocities, _, _ = timing(np.array(waypoints), STEP)
    except RuntimeError:
        return motionless
    if not len(positions):
        return motionless
    if len(positions) > LONGEST:
        indices = np.unique(np.linspace(0, len(positions) - 1, LONGEST).astype(int))
        positions = positions[indices]
        velocities = velocities[indices]
    return positions, velocities
