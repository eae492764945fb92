"""Determine which action of a chunk solved a RoboTwin task, and the reward of each action.

`gen_sparse_reward_data` executes a whole chunk and returns whether the task is solved, but not
when. So its physics steps are counted. The planned steps are divided equally among the actions of
the chunk, and a physics step belongs to the action in whose share it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

FIXED_STEPS = 50  # physics steps of an arm whose path RoboTwin could not time


class Progress:
    """Measures the progress of a task, 0 to 1, by RoboTwin's own dense reward.

    It does what RoboTwin's `gen_dense_reward_once` does, without moving the robot.
    """

    def __init__(self, task: Any) -> None:
        self._task = task

    def start(self) -> None:
        """Record the poses of the arms at the start of a chunk, from which rewards are computed."""
        vars(self._task).update({name: [pose] for name, pose in self._arms().items()})

    def now(self) -> float:
        """Record the poses of the arms after an action, and return the dense reward."""
        for name, pose in self._arms().items():
            vars(self._task)[name].append(pose)
        self._task.reward.update()
        return float(self._task.reward.compute_reward())

    def _arms(self) -> dict[str, np.ndarray]:
        """Return poses and joint states of both arms, by the attributes that rewards read."""
        robot = self._task.robot
        return {
            "episode_left_eef_poses": np.array(robot.get_left_ee_pose()),
            "episode_right_eef_poses": np.array(robot.get_right_ee_pose()),
            "episode_left_joint_states": np.array(robot.get_left_arm_jointState()),
            "episode_right_joint_states": np.array(robot.get_right_arm_jointState()),
        }


class Clock:
    """Counts physics steps to know the current action of a chunk, and measures progress after each.

    RoboTwin calls `check_success` after every physics step, and `downsample_trajectory` for the
    timed path of each arm before the first step. Both methods of the task are wrapped.

    Args:
        task: RoboTwin's task.
        progress: measures the reward of actions before the task is solved; None: it is 0.
    """

    def __init__(self, task: Any, progress: Progress | None = None) -> None:
        self._task = task
        self._progress = progress
        self._solved = task.check_success
        self._shorten = task.downsample_trajectory
        self.start(0)
        task.check_success = self._count
        task.downsample_trajectory = self._note

    def start(self, actions: int) -> None:
        """Begin a new chunk with this number of actions."""
        self._actions = actions
        self._driven = 0
        self._planned: list[int] = []
        self._values: list[float] = []
        if self._progress is not None:
            self._progress.start()

    def action(self) -> int:
        """Return the index of the action that the last physics step belongs to."""
        return self._begun(max(0, self._driven - 1))

    def values(self) -> list[float]:
        """Return the progress after each action; actions that ended together are measured once."""
        self._measure_until(self._actions)
        return self._values

    def _begun(self, step: int) -> int:
        """Return the index of the action that a physics step, counted from 0, belongs to."""
        arms = self._planned if len(self._planned) == 2 else [*self._planned, FIXED_STEPS]
        longest = max(steps or FIXED_STEPS for steps in arms)
        return min(self._actions - 1, step * self._actions // longest)

    def _measure_until(self, ended: int) -> None:
        missing = ended - len(self._values)
        if missing > 0:
            self._task.check_success = self._solved  # rewards may call it, which is no step
            self._values += [self._progress.now() if self._progress else 0.0] * missing
            self._task.check_success = self._count

    def _count(self) -> Any:
        self._driven += 1
        solved = self._solved()
        if not solved:
            self._measure_until(self._begun(self._driven))
        return solved

    def _note(self, *path: Any, **options: Any) -> Any:
        shortened = self._shorten(*path, **options)
        self._planned.append(len(shortened[0]))
        return shortened
