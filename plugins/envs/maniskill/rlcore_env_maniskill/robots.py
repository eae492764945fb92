"""Table of robots and the layout of their actions. Loads no simulator.

A ManiSkill controller of the end effector takes numbers in [-1, 1]. An action of 1 moves by
`metres` or turns by `radians` per step. The unit of rotation is negative for the robots in
ManiSkill's wheel, because ManiSkill scales rotations by the lower bound
(`PDEEPoseController._clip_and_scale_action`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from rlcore.contracts.specs import ActionChannel, ActionMeaning

PANDA_MODES = (
    "pd_ee_delta_pose",
    "pd_ee_target_delta_pose",
    "pd_ee_delta_pos",
    "pd_ee_target_delta_pos",
    "pd_joint_delta_pos",
    "pd_joint_target_delta_pos",
)


EE_MODES = PANDA_MODES[:4]
JOINT_MODES = PANDA_MODES[4:]


@dataclass(frozen=True)
class Robot:
    """An arm, with or without a gripper.

    Attributes:
        joints: number of joints of the arm.
        metres: how far an action of 1 moves the end effector in a step, m.
        radians: how far an action of 1 turns the end effector in a step, rad.
        joint_radians: how far an action of 1 turns a joint in a step, rad; one number per joint if
            they differ.
        gripper: effect of +1 as the last entry of an action, "opens" or "closes"; None: the
            action has no separate entry for the gripper.
        gripper_radians: how far an action of 1 turns the gripper's joints in a step, rad; None:
            the action is the gripper's target.
        fingers: joints from which the gripper's opening is computed; empty: there is no gripper.
        fingers_close: whether the gripper closes as the positions of these joints increase.
        positions: number of entries of ManiSkill's qpos; None: unknown.
        cameras: names of the cameras that are mounted on the robot.
        control_modes: control modes that rlcore supports, the default first.
    """

    joints: int
    metres: float = 0.1
    radians: float = -0.1
    joint_radians: float | tuple[float, ...] = 0.1
    gripper: Literal["opens", "closes"] | None = "opens"
    gripper_radians: float | None = None
    fingers: tuple[str, ...] = ("panda_finger_joint1", "panda_finger_joint2")
    fingers_close: bool = False
    positions: int | None = 9
    cameras: tuple[str, ...] = ()
    control_modes: tuple[str, ...] = PANDA_MODES

    @property
    def joint_units(self) -> tuple[float, ...]:
        """Rotation of each joint in a step by an action of 1, rad."""
        radians = self.joint_radians
        return radians if isinstance(radians, tuple) else (radians,) * self.joints


ROBOTS: dict[str, Robot] = {
    "panda": Robot(7),
    "panda_wristcam": Robot(7, cameras=("hand_camera",)),
    # a stick in place of the hand; its class does not define the tip's pose, its controllers do
    "panda_stick": Robot(7, gripper=None, fingers=(), positions=7, control_modes=EE_MODES),
    # its jaw is the last of its joints and is commanded like the others
    "so100": Robot(
        6,
        joint_radians=(0.05, 0.05, 0.05, 0.05, 0.05, 0.2),
        gripper=None,
        fingers=("gripper",),
        positions=6,
        control_modes=JOINT_MODES,
    ),
    # control modes that are not listed take the gripper's absolute angle
    "xarm6_robotiq": Robot(
        6,
        gripper="closes",
        gripper_radians=0.15,
        fingers=("left_outer_knuckle_joint", "right_outer_knuckle_joint"),
        fingers_close=True,
        positions=None,
        control_modes=(
            "pd_ee_delta_pos",
            "pd_ee_target_delta_pose",
            "pd_ee_target_delta_pos",
            *JOINT_MODES,
        ),
    ),
    "widowx250s": Robot(
        6,
        metres=1.0,
        radians=1.0,
        fingers=("left_finger", "right_finger"),
        positions=8,
        control_modes=("arm_pd_ee_target_delta_pose_align2_gripper_pd_joint_pos",),
    ),
}

# Parts of an action by control mode. Modes with "target" add to the last target, the others to the
# measured pose.
ARM_COMMANDS: dict[str, tuple[str, ...]] = {
    "pd_ee_delta_pose": ("position", "rotation"),
    "pd_ee_target_delta_pose": ("position", "rotation"),
    "arm_pd_ee_target_delta_pose_align2_gripper_pd_joint_pos": ("position", "rotation"),
    "pd_ee_delta_pos": ("position",),
    "pd_ee_target_delta_pos": ("position",),
    "pd_joint_delta_pos": ("joints",),
    "pd_joint_target_delta_pos": ("joints",),
}


def action_channels(
    robot: Robot, control_mode: str, *, metric: bool, binary: bool
) -> tuple[ActionChannel, ...]:
    """Return the layout of an action.

    Args:
        robot: the robot that takes the action.
        control_mode: a key of `ARM_COMMANDS`.
        metric: whether motions are in metres and radians instead of the controller's [-1, 1].
        binary: whether the gripper's entry is in [0, 1] and opens above 0.5.
    """
    channels = []
    for meaning, size, unit, name in _motions(robot, control_mode):
        bound = abs(unit) if metric else 1.0
        convention = f"{name} a step" if metric else f"1 is {unit:g} {name} a step"
        convention += f", {control_mode}"  # determines what a motion is relative to
        channels.append(ActionChannel(meaning, size, -bound, bound, "base", convention))
    if robot.gripper is None:
        return tuple(channels)
    if binary:
        channels.append(ActionChannel("gripper", 1, 0.0, 1.0, convention="above 0.5 opens"))
    else:
        convention = "+1 opens, -1 closes" if robot.gripper == "opens" else "+1 closes, -1 opens"
        if robot.gripper_radians is not None:
            convention += f", {robot.gripper_radians:g} rad a step"
        channels.append(ActionChannel("gripper", 1, convention=convention))
    return tuple(channels)


def motion_units(robot: Robot, control_mode: str) -> list[float]:
    """Return how far an action of 1 moves in a step (m or rad), by entry, without the gripper's."""
    return [unit for _, size, unit, _ in _motions(robot, control_mode) for _ in range(size)]


def _motions(robot: Robot, control_mode: str) -> Iterator[tuple[ActionMeaning, int, float, str]]:
    """Yield meaning, number of entries, motion per step of an action of 1, and unit of its parts.

    Consecutive joints that move equally far are one part.
    """
    for command in ARM_COMMANDS[control_mode]:
        if command == "position":
            yield "ee_delta_position", 3, robot.metres, "m"
        elif command == "rotation":
            yield "ee_delta_rotation", 3, robot.radians, "rad"
        else:
            for unit, run in groupby(robot.joint_units):
                yield "joint_delta", len(list(run)), unit, "rad"
