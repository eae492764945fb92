"""Plan paths of one arm with mplib: straight ones if possible, else by a sampling-based search.

All coordinates are in the world's frame. Poses of the hand are matrices `[4, 4]`. Paths are
waypoints `[P, 6]` of the joints, including the first.
"""

from __future__ import annotations

import mplib
import numpy as np
from mplib.collision_detection.fcl import Box, CollisionObject
from transforms3d.quaternions import mat2quat

from rlcore_stand_ins.robotwin import arm
from rlcore_stand_ins.robotwin.scene import robot_files
from rlcore_stand_ins.robotwin.tasks import TABLE

SCREW_STEP = 0.1  # distance in joint space between waypoints of a straight path, rad
SPACING = 0.1  # likewise of paths that are straight in joint space
THICK = 0.02  # half the thickness of the planner's table, m
SEEDS = range(1, 5)  # seeds of successive searches
# Timeout of a search. With mplib's default of one second the result would depend on the machine.
SEARCH_SECONDS = 10.0
# Initial guess for inverse kinematics of a level hand, with which the right arm takes the box.
LEVEL = np.array([0.45, -1.1, 2.5, -0.35, -1.4, 0.05])
DOWN = np.array([0.0, 0.0, -1.0])


class ArmPlanner:
    """Planner of one arm, which avoids only the table.

    Args:
        side: 0 for the left arm, 1 for the right one.
    """

    def __init__(self, side: int) -> None:
        with robot_files() as folder:
            self._planner = mplib.Planner(
                urdf=str(folder / "arm.urdf"),
                srdf=str(folder / "arm.srdf"),
                move_group="hand",
                joint_vel_limits=np.full(6, arm.SPEED),
                joint_acc_limits=np.full(6, arm.ACCELERATION),
            )
        base = [*arm.BASES[side]], [np.cos(arm.YAW / 2), 0.0, 0.0, np.sin(arm.YAW / 2)]
        self._base = mplib.Pose(*base)
        self._planner.set_base_pose(self._base)
        top = mplib.Pose([0.0, 0.0, TABLE - THICK], [1.0, 0.0, 0.0, 0.0])
        table = CollisionObject(Box([1.2, 0.7, 2 * THICK]), top)
        self._planner.planning_world.add_object("table", table)
        self.time = self._planner.TOPP

    def hand(self, joints: np.ndarray) -> np.ndarray:
        """Return the pose of the hand at joints `[6]`."""
        model = self._planner.pinocchio_model
        model.compute_forward_kinematics(_with_fingers(joints))
        pose = model.get_link_pose(self._planner.link_name_2_idx["hand"])
        return (self._base * pose).to_transformation_matrix()

    def path(self, joints: np.ndarray, goal: np.ndarray) -> np.ndarray | None:
        """Return a path from joints `[6]` to a pose of the hand, or None if none was found.

        It is straight if possible, else straight in joint space, else the result of a search.
        """
        path = self.straight(joints, goal)
        return self._around(joints, goal) if path is None else path

    def straight(self, joints: np.ndarray, goal: np.ndarray) -> np.ndarray | None:
        """Return a path with a screw motion of the hand, or None if the joints can't follow it."""
        with np.errstate(all="ignore"):
            plan = self._planner.plan_screw(
                _pose(goal), _with_fingers(joints), qpos_step=SCREW_STEP, time_step=1 / 250
            )
        return plan["position"] if plan["status"] == "Success" else None

    def _around(self, joints: np.ndarray, goal: np.ndarray) -> np.ndarray | None:
        for guess in (joints, arm.HOME, LEVEL):
            status, solutions = self._planner.IK(
                self._base.inv() * _pose(goal), _with_fingers(guess), n_init_qpos=1
            )
            if status == "Success":
                path = line(joints, solutions[0][:6])
                # mplib checks each waypoint for a collision with the table
                if not any(map(self._planner.check_for_env_collision, map(_with_fingers, path))):
                    return path
        for seed in SEEDS:
            mplib.set_global_seed(seed)
            result = self._planner.plan_pose(
                _pose(goal), _with_fingers(joints), time_step=1 / 250, planning_time=SEARCH_SECONDS
            )
            if result["status"] == "Success":
                return result["position"]
        return None


def line(begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return a path that is straight in joint space."""
    count = max(2, 1 + round(float(np.linalg.norm(end - begin)) / SPACING))
    return np.linspace(begin, end, count)


def resampled(path: np.ndarray, count: int) -> np.ndarray:
    """Return `count` waypoints of a path, evenly spaced in joint space, without the first."""
    distances = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(path, axis=0), axis=1))])
    positions = np.linspace(0.0, distances[-1], count + 1)[1:]
    return np.stack([np.interp(positions, distances, joint) for joint in path.T], axis=1)


def length(path: np.ndarray) -> float:
    """Return the length of a path in joint space, rad."""
    return float(np.linalg.norm(np.diff(path, axis=0), axis=1).sum())


def grasp(point: np.ndarray, forward: np.ndarray, across: np.ndarray) -> np.ndarray:
    """Return the pose of a hand at a point; fingers point `forward` and open along `across`."""
    matrix = np.eye(4)
    matrix[:3, :3] = np.stack([forward, across, np.cross(forward, across)], axis=1)
    matrix[:3, 3] = point
    return matrix


def _with_fingers(joints: np.ndarray) -> np.ndarray:
    return np.concatenate([joints, [arm.OPENING, arm.OPENING]])


def _pose(matrix: np.ndarray) -> mplib.Pose:
    return mplib.Pose(matrix[:3, 3], mat2quat(matrix[:3, :3]))
