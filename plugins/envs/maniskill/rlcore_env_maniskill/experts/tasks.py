"""Make the expert of a ManiSkill task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from rlcore_env_maniskill.experts import planned
from rlcore_env_maniskill.experts.arm import Arm, row
from rlcore_env_maniskill.experts.pick_place import UP, PickPlace
from rlcore_env_maniskill.experts.push import Push
from rlcore_env_maniskill.tasks import TABLETOP, TASKS

# Height above the goal at which an object is carried that is put onto another, m.
OVER_OTHERS = 0.07
# Least height above the table at which the hand grasps, m: the fingertips reach 0.01 m lower.
FINGERTIPS = 0.013


class Expert(Protocol):
    """Computes actions from the privileged state of one env."""

    def reset(self) -> None:
        """Clear the state of the last episode; called at the start of each episode."""

    def action(self, *, speed: float) -> np.ndarray:
        """Return the action for the env's current state without noise, float32 `[A]`, in [-1, 1].

        A is 7 for `pd_ee_delta_pose`, 4 for `pd_ee_delta_pos` (no rotation) and 8 for
        `pd_joint_delta_pos`.

        Args:
            speed: fraction of the full motion, in (0, 1].
        """


def _pick_cube(env: Any) -> Expert:
    arm = Arm(env)
    return PickPlace(
        arm,
        grasp=lambda: row(env.cube.pose.p),
        goal=lambda: row(env.goal_site.pose.p),
        held=lambda: arm.holds(env.cube),
    )


def _push_cube(env: Any) -> Expert:
    return Push(Arm(env), env.obj, env.goal_region)


def _stack_cube(env: Any) -> Expert:
    arm = Arm(env)
    height = 2 * float(env.cube_half_size[2]) * UP
    return PickPlace(
        arm,
        grasp=lambda: row(env.cubeA.pose.p),
        goal=lambda: row(env.cubeB.pose.p) + height,
        held=lambda: arm.holds(env.cubeA),
        clearance=OVER_OTHERS,
        release=True,
    )


def _put_on_plate(env: Any) -> Expert:
    def grasp() -> np.ndarray:
        state = env.privileged_state()
        half = row(state["object_size"])[2] / 2
        return row(state["object"])[:3] + max(0.0, FINGERTIPS - half) * UP

    def goal() -> np.ndarray:
        state = env.privileged_state()
        halves = (row(state["object_size"])[2] + row(state["plate_size"])[2]) / 2
        lying = row(state["plate"])[:3] + halves * UP
        return lying + grasp() - row(state["object"])[:3]

    return PickPlace(
        Arm(env),
        grasp=grasp,
        goal=goal,
        held=lambda: bool(env.privileged_state()["grasping"][0]),  # the actor varies by episode
        clearance=OVER_OTHERS,
        release=True,
    )


_MAKERS: dict[str, Callable[[Any], Expert]] = {
    "PickCube-v1": _pick_cube,
    "PushCube-v1": _push_cube,
    "PullCube-v1": _push_cube,
    "StackCube-v1": _stack_cube,
    **dict.fromkeys(TASKS.keys() - TABLETOP.keys(), _put_on_plate),
}
EXPERT_TASKS = frozenset(_MAKERS)


def expert_for(task_id: str, env: Any) -> Expert | None:
    """Return the expert of a ManiSkill task; None if the control mode has no expert.

    Args:
        task_id: the id that the env was made with.
        env: the unwrapped env with one scene and one panda. Scripted experts need control mode
            `pd_ee_delta_pose` or `pd_ee_delta_pos`, motion-planned ones `pd_joint_delta_pos`.

    Raises:
        ConfigError: the env has another control mode.
        AssetError: ManiSkill's motion-planned solution, or mplib, can't be imported.
    """
    if env.control_mode == planned.CONTROL_MODE:
        return planned.Planned(task_id, env) if task_id in planned.SOLUTIONS else None
    maker = _MAKERS.get(task_id)
    return maker(env) if maker else None
