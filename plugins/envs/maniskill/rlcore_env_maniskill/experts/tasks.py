"""Which ManiSkill task has which expert."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from rlcore_env_maniskill.experts.arm import Arm, row
from rlcore_env_maniskill.experts.pick_place import PickPlace
from rlcore_env_maniskill.experts.push import Push

# Metres over its goal at which a thing that is put onto another is carried.
OVER_OTHERS = 0.05


class Expert(Protocol):
    """Acts on the privileged state of one env."""

    def reset(self) -> None:
        """Forget the last episode; called at the start of each."""

    def action(self, *, speed: float) -> np.ndarray:
        """The clean action for the env's current state, float32 `[7]`, in range.

        Args:
            speed: part of the full motion, in (0, 1].
        """


def _pick_cube(env: Any) -> Expert:
    return PickPlace(Arm(env), env.cube, lambda: row(env.goal_site.pose.p))


def _push_cube(env: Any) -> Expert:
    return Push(Arm(env), env.obj, env.goal_region)


def _stack_cube(env: Any) -> Expert:
    height = np.array([0.0, 0.0, 2 * float(env.cube_half_size[2])])
    return PickPlace(
        Arm(env),
        env.cubeA,
        lambda: row(env.cubeB.pose.p) + height,
        clearance=OVER_OTHERS,
        release=True,
    )


_MAKERS: dict[str, Callable[[Any], Expert]] = {
    "PickCube-v1": _pick_cube,
    "PushCube-v1": _push_cube,
    "PullCube-v1": _push_cube,
    "StackCube-v1": _stack_cube,
}
EXPERT_TASKS = frozenset(_MAKERS)


def expert_for(task_id: str, env: Any) -> Expert | None:
    """The expert of a ManiSkill task, or None where there is none.

    Args:
        task_id: the id the env was made by.
        env: the unwrapped env: one scene, one panda, control mode `pd_ee_delta_pose`.

    Raises:
        ConfigError: for another control mode.
    """
    maker = _MAKERS.get(task_id)
    return maker(env) if maker else None
