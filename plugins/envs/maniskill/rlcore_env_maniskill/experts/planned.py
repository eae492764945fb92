"""ManiSkill's own motion-planned solutions as experts, an action at a time.

A solution plans a path of joint positions with mplib and steps the env itself, until the task is
done. Here it runs in a thread of its own, on an env whose `step` hands the joint positions over and
waits until they were carried out. One of the two threads is always waiting, so the scene is never
touched by both.

mplib 0.1.1 needs numpy below 2: where rlcore has another, the simulators run in an environment of
their own (`env.train.python`).
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
"""Modules of ManiSkill's solutions for the panda, by task: those that a test has played."""
_FOLDER = "mani_skill.examples.motionplanning.panda.solutions"


class _Abandoned(Exception):
    """The episode was ended from outside."""


class Planned:
    """A solution (see :class:`rlcore_env_maniskill.experts.tasks.Expert`).

    Args:
        task_id: a key of :data:`SOLUTIONS`.
        env: the unwrapped env: one scene, one panda, control mode `pd_joint_delta_pos`.

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
        """End the solution that is under way; the next action begins a new one."""
        if self._thread is not None and not self._ended:
            self._carried_out.put(False)
            self._thread.join()
        self._thread, self._target, self._ended = None, None, False

    def action(self, *, speed: float) -> np.ndarray:
        """The next action float32 `[8]`: from the joints' measured positions towards those of the
        path, and the gripper's; those of the end, once the path has ended.

        Raises:
            ConfigError: another speed than 1: a path is timed when it is planned.
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
        """Let the solution go on to its next step."""
        if self._thread is None:
            self._begin()
        else:
            self._carried_out.put(True)
        found = self._targets.get()
        self._ended = found is None or isinstance(found, Exception)
        if isinstance(found, Exception):
            raise found
        if found is not None:
            self._target = found

    def _begin(self) -> None:
        self._targets: queue.Queue[Any] = queue.Queue()
        self._carried_out: queue.Queue[bool] = queue.Queue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        """The solution's thread; its last word is None, or what went wrong."""
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
        here = self._arm.qpos[0].detach().cpu().numpy().astype(np.float64)
        if target is None:  # nothing was planned: stay
            return np.append(np.zeros(len(here)), 1.0).astype(np.float32)
        way = (target[: len(here)] - here) / self._arm.config.upper
        return np.append(np.clip(way, -1.0, 1.0), target[-1]).astype(np.float32)


class _Handing:
    """The env as a solution sees it: it has been reset, and steps are handed over."""

    def __init__(self, env: Any, hand_over: Any) -> None:
        self.unwrapped = env
        self._hand_over = hand_over

    def reset(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        return {}, {}

    def step(self, action: np.ndarray) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        self._hand_over(np.asarray(action, dtype=np.float64))
        return {}, 0.0, False, False, {}
