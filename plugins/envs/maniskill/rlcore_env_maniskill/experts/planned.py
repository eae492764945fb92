"""ManiSkill's motion-planned solutions as experts that return one action at a time.

A solution plans a path of joint positions with mplib and steps the env itself until the task is
solved. Here it runs in a separate thread, on an env whose `step` passes the joint positions to the
expert and waits until the action was carried out. One of the two threads always waits for the
other, so they never access the scene concurrently.

mplib 0.1.1 needs numpy below 2. If rlcore's environment has a later numpy, the simulators run in
another environment (`env.train.python`).
"""

from __future__ import annotations

import importlib
import queue
import threading
from typing import Any

import numpy as np

from rlcore.contracts.errors import AssetError, ConfigError

CONTROL_MODE = "pd_joint_delta_pos"
SOLUTIONS = {"PickCube-v1": "pick_cube"}
"""Modules of ManiSkill's solutions for the panda, by task; only solutions covered by a test."""
_FOLDER = "mani_skill.examples.motionplanning.panda.solutions"


class _Abandoned(Exception):
    """Ends the solution's thread, because the expert was reset before the solution ended."""


class Planned:
    """Expert that follows a motion-planned solution.

    See :class:`rlcore_env_maniskill.experts.tasks.Expert`.

    Args:
        task_id: a key of :data:`SOLUTIONS`.
        env: the unwrapped env with one scene, one panda and control mode `pd_joint_delta_pos`.

    Raises:
        AssetError: mplib can't be imported.
    """

    def __init__(self, task_id: str, env: Any) -> None:
        try:
            self._solve = importlib.import_module(f"{_FOLDER}.{SOLUTIONS[task_id]}").solve
        except ImportError as error:
            raise AssetError(
                f"ManiSkill's motion-planned solution of {task_id} can't be loaded: {error}",
                hint="rlcore venv create maniskill makes an environment for env.train.python",
            ) from error
        self._env = env
        self._arm = env.agent.controller.controllers["arm"]
        self._thread: threading.Thread | None = None
        self._target: np.ndarray | None = None
        self._ended = False

    def reset(self) -> None:
        """End the running solution; the next action begins a new one."""
        if self._thread is not None and not self._ended:
            self._carried_out.put(False)
            self._thread.join()
        self._thread = None
        self._target = None
        self._ended = False

    def action(self, *, speed: float) -> np.ndarray:
        """Return the next action, float32 `[8]`: seven joint motions and the gripper.

        The motions lead from the measured joint positions to the next ones of the path, or to its
        last ones after its end.

        Raises:
            ConfigError: `speed` is not 1; the speed of a path is fixed when it is planned.
        """
        if speed != 1.0:
            raise ConfigError(
                f"collect.speed must be 1: ManiSkill's motion-planned solutions have their own "
                f"speed, got {speed:g}"
            )
        if not self._ended:
            self._advance()
        return self._towards(self._target)

    def _advance(self) -> None:
        """Run the solution until it passes its next target or ends; raise its exception if any."""
        if self._thread is None:
            self._begin()
        else:
            self._carried_out.put(True)
        target = self._targets.get()
        self._ended = target is None or isinstance(target, Exception)
        if isinstance(target, Exception):
            raise target
        if target is not None:
            self._target = target

    def _begin(self) -> None:
        self._targets: queue.Queue[Any] = queue.Queue()
        self._carried_out: queue.Queue[bool] = queue.Queue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        """Run the solution in its thread; at the end put None or its exception into the queue."""
        try:
            self._solve(_Handing(self._env, self._hand_over), seed=None, debug=False, vis=False)
        except _Abandoned:
            return
        except Exception as error:
            self._targets.put(error)
            return
        self._targets.put(None)

    def _hand_over(self, target: np.ndarray) -> None:
        self._targets.put(target)
        if not self._carried_out.get():
            raise _Abandoned

    def _towards(self, target: np.ndarray | None) -> np.ndarray:
        joints = self._arm.qpos[0].detach().cpu().numpy().astype(np.float64)
        if target is None:  # nothing was planned: do not move
            return np.append(np.zeros(len(joints)), 1.0).astype(np.float32)
        way = (target[: len(joints)] - joints) / self._arm.config.upper
        return np.append(np.clip(way, -1.0, 1.0), target[-1]).astype(np.float32)


class _Handing:
    """The env that a solution is given: `reset` does nothing and `step` hands the action over."""

    def __init__(self, env: Any, hand_over: Any) -> None:
        self.unwrapped = env
        self._hand_over = hand_over

    def reset(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        return {}, {}

    def step(self, action: np.ndarray) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        self._hand_over(np.asarray(action, dtype=np.float64))
        return {}, 0.0, False, False, {}
