"""How a chunk of joint targets becomes a motion, as in RoboTwin's `gen_sparse_reward_data`.

An arm's targets are waypoints of one path, from its last target on, which is timed as a whole: as
fast as the limits of its joints allow, from rest to rest. Both arms begin and end together. The
grippers' values are spread evenly over that time. So a chunk has no time of its own, and its
length in steps of physics depends on how far it leads.

One departure: an arm whose targets don't change takes `STILL` steps. RoboTwin adds noise to its
path, which then takes about ten; fingers move too little in that time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

STEP = 1 / 250  # seconds of a step of physics
STILL = 50  # steps of an arm that does not move, or whose path can't be timed
LONGEST = 500  # steps of an arm; a longer motion is played faster
SAME = 1e-5  # targets that differ by less in each joint are one waypoint, rad


class Timing(Protocol):
    """mplib's `Planner.TOPP`: the fastest motion along a path `[P, 6]`, as times, positions
    `[N, 6]`, velocities `[N, 6]`, accelerations and its duration in s. Raises RuntimeError where
    there is none."""

    def __call__(
        self, path: np.ndarray, step: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, float]: ...


@dataclass(frozen=True)
class Motion:
    """A chunk in steps of physics.

    Attributes:
        positions, velocities: of each arm's joints, `[N, 6]`.
        grippers: values of both, `[N, 2]`.
        ends: the step after which each action is over, `[C]`.
    """

    positions: tuple[np.ndarray, np.ndarray]
    velocities: tuple[np.ndarray, np.ndarray]
    grippers: np.ndarray
    ends: np.ndarray


def motion(targets: np.ndarray, actions: np.ndarray, timing: Timing) -> Motion:
    """Time a chunk.

    Args:
        targets: where both arms are bound for now, `[14]`: six joints and the gripper of each.
        actions: `[C, 14]`.
    """
    arms = [_timed(np.vstack([targets[part], actions[:, part]]), timing)
            for part in (slice(0, 6), slice(7, 13))]  # fmt: skip
    length = max(len(positions) for positions, _ in arms)
    steps = np.arange(1, length + 1)
    chosen = [-(-steps * len(positions) // length) - 1 for positions, _ in arms]  # rounded up
    values = np.vstack([targets[[6, 13]], actions[:, [6, 13]]])
    count = len(actions)
    grippers = [np.interp(steps * count / length, np.arange(count + 1), side) for side in values.T]
    left, right = ((p[k], v[k]) for (p, v), k in zip(arms, chosen, strict=True))
    return Motion(
        positions=(left[0], right[0]),
        velocities=(left[1], right[1]),
        grippers=np.stack(grippers, axis=1),
        ends=-(-np.arange(1, count + 1) * length // count) - 1,
    )


def _timed(path: np.ndarray, timing: Timing) -> tuple[np.ndarray, np.ndarray]:
    """Positions and velocities `[N, 6]` along waypoints `[P, 6]`."""
    waypoints = [path[0]]
    for waypoint in path[1:]:
        if (abs(waypoint - waypoints[-1]) > SAME).any():
            waypoints.append(waypoint)
    still = np.repeat(path[-1:], STILL, axis=0), np.zeros((STILL, path.shape[1]))
    if len(waypoints) == 1:
        return still
    try:
        _, positions, velocities, _, _ = timing(np.array(waypoints), STEP)
    except RuntimeError:
        return still
    if not len(positions):
        return still
    if len(positions) > LONGEST:
        picked = np.unique(np.linspace(0, len(positions) - 1, LONGEST).astype(int))
        positions = positions[picked]
        velocities = velocities[picked]
    return positions, velocities
