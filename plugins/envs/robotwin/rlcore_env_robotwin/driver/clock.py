"""What RoboTwin does not say of a chunk: which action it is at, and what each was worth.

`gen_sparse_reward_data` drives along a whole chunk, and says whether the task is solved, not when.
We count its physics steps: one belongs to the action whose share of the planned steps it is in.
"""

from __future__ import annotations

from typing import Any

import numpy as np

FIXED_STEPS = 50  # of an arm whose path RoboTwin could not time


class Progress:
    """How far a task has come, from 0 to 1, by RoboTwin's own dense reward: what its
    `gen_dense_reward_once` does besides driving."""

    def __init__(self, task: Any) -> None:
        self._task = task

    def start(self) -> None:
        """Let the rewards see from where a chunk begins."""
        vars(self._task).update({name: [seen] for name, seen in self._arms().items()})

    def now(self) -> float:
        """After an action."""
        for name, seen in self._arms().items():
            vars(self._task)[name].append(seen)
        self._task.reward.update()
        return float(self._task.reward.compute_reward())

    def _arms(self) -> dict[str, np.ndarray]:
        """Where they are, under the names by which rewards ask for it."""
        robot = self._task.robot
        return {
            "episode_left_eef_poses": np.array(robot.get_left_ee_pose()),
            "episode_right_eef_poses": np.array(robot.get_right_ee_pose()),
            "episode_left_joint_states": np.array(robot.get_left_arm_jointState()),
            "episode_right_joint_states": np.array(robot.get_right_arm_jointState()),
        }


class Clock:
    """Which action of a chunk RoboTwin is at, and how far the task has come after each.

    RoboTwin asks whether the task is solved after every physics step, and shortens the timed path
    of each arm before the first: we listen to both.

    Args:
        task: of RoboTwin.
        progress: what actions are worth before the task is solved; None: nothing.
    """

    def __init__(self, task: Any, progress: Progress | None = None) -> None:
        self._task, self._progress = task, progress
        self._solved, self._shorten = task.check_success, task.downsample_trajectory
        self.start(0)
        task.check_success = self._count
        task.downsample_trajectory = self._note

    def start(self, actions: int) -> None:
        """A new chunk of so many actions."""
        self._actions = actions
        self._driven, self._planned, self._values = 0, list[int](), list[float]()
        if self._progress is not None:
            self._progress.start()

    def action(self) -> int:
        """The one that the last physics step belongs to."""
        return self._begun(max(0, self._driven - 1))

    def values(self) -> list[float]:
        """What was measured after each action; of those that ended together, once."""
        self._measure_until(self._actions)
        return self._values

    def _begun(self, step: int) -> int:
        """The action that a physics step, counted from 0, belongs to."""
        arms = self._planned if len(self._planned) == 2 else [*self._planned, FIXED_STEPS]
        longest = max(steps or FIXED_STEPS for steps in arms)
        return min(self._actions - 1, step * self._actions // longest)

    def _measure_until(self, ended: int) -> None:
        missing = ended - len(self._values)
        if missing > 0:
            self._task.check_success = self._solved  # a reward may ask, and no step was made
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
