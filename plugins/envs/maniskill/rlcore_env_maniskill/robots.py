"""Robots and the layout of their actions. Data only, light.

A ManiSkill controller that commands the end effector takes numbers in [-1, 1] and turns one into
`metres` or `radians` a step. The unit of rotation is negative for robots of the wheel: ManiSkill
scales it by the lower bound (`PDEEPoseController._clip_and_scale_action`).
"""

from __future__ import annotations

from dataclasses import dataclass

from rlcore.specs import ActionChannel

PANDA_MODES = (
    "pd_ee_delta_pose",
    "pd_ee_target_delta_pose",
    "pd_ee_delta_pos",
    "pd_ee_target_delta_pos",
    "pd_joint_delta_pos",
    "pd_joint_target_delta_pos",
)


@dataclass(frozen=True)
class Robot:
    """An arm with a gripper.

    Attributes:
        joints: of the arm.
        metres, radians: what 1 commands, in a step, of the end effector.
        joint_radians: what 1 commands of a joint.
        cameras: what it carries.
        control_modes: that rlcore plays, the one used where none is asked for first.
    """

    joints: int
    metres: float = 0.1
    radians: float = -0.1
    joint_radians: float = 0.1
    cameras: tuple[str, ...] = ()
    control_modes: tuple[str, ...] = PANDA_MODES


ROBOTS: dict[str, Robot] = {
    "panda": Robot(7),
    "panda_wristcam": Robot(7, cameras=("hand_camera",)),
    "widowx250s": Robot(
        6,
        metres=1.0,
        radians=1.0,
        control_modes=("arm_pd_ee_target_delta_pose_align2_gripper_pd_joint_pos",),
    ),
}

# What a control mode commands of the arm. Modes with "target" count from where they wanted to be.
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
    """The layout of an action.

    Args:
        robot: whose.
        control_mode: a key of `ARM_COMMANDS`.
        metric: motion in metres and radians instead of the controller's own [-1, 1].
        binary: the gripper takes [0, 1] and opens above one half.
    """
    arm = {
        "position": ("ee_delta_position", 3, robot.metres, "m"),
        "rotation": ("ee_delta_rotation", 3, robot.radians, "rad"),
        "joints": ("joint_delta", robot.joints, robot.joint_radians, "rad"),
    }
    channels = []
    for command in ARM_COMMANDS[control_mode]:
        meaning, size, unit, name = arm[command]
        bound = abs(unit) if metric else 1.0
        says = f"{name} a step" if metric else f"1 is {unit:g} {name} a step"
        channels.append(ActionChannel(meaning, size, -bound, bound, "base", says))  # type: ignore[arg-type]
    if binary:
        channels.append(ActionChannel("gripper", 1, 0.0, 1.0, convention="above 0.5 opens"))
    else:
        channels.append(ActionChannel("gripper", 1, convention="+1 opens, -1 closes"))
    return tuple(channels)


def motion_units(robot: Robot, control_mode: str) -> list[float]:
    """What 1 commands, for each entry of an action but the gripper's."""
    units = {
        "position": [robot.metres] * 3,
        "rotation": [robot.radians] * 3,
        "joints": [robot.joint_radians] * robot.joints,
    }
    return [unit for command in ARM_COMMANDS[control_mode] for unit in units[command]]
