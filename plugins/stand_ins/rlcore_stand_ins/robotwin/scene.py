"""Simulate a table scene in SAPIEN: two arms, the things of a task, cameras.

Each start builds a new scene, so no state of an earlier episode remains.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import sapien

from rlcore_stand_ins.robotwin import arm
from rlcore_stand_ins.robotwin.motion import STEP
from rlcore_stand_ins.robotwin.tasks import TABLE, Thing

# of every joint, as RoboTwin's default
STIFFNESS = 1000.0
DAMPING = 200.0
FRICTION = 0.5
# A D435, as RoboTwin renders it: pixels, and the vertical field of view in rad.
WIDTH = 320
HEIGHT = 240
VIEW = np.deg2rad(37)
CLIPPING = (0.02, 10.0)  # nearest and farthest visible distance, m
# RoboTwin's names of its cameras
HEAD = "head_camera"
WRISTS = ("left_camera", "right_camera")
HEAD_AT = (0.0, -0.45, 1.42)  # between the arms
HEAD_LOOKS = (0.0, 0.6, -0.8)
WRIST_LOOKS = (0.92, 0.0, -0.39)  # in the frame of the camera's link: at the fingers' tips
BEHIND = 0.12  # distance of RoboTwin's hand frame behind the fingertips, m
OPENING_STEP = 0.1  # a gripper opens by at most this in a step of physics, as in RoboTwin
SHADER = "trivial"  # flat colours; it loads in 0.1 s on a CPU, where one with light takes 7 s


class Scene:
    """Scene with arms, things and cameras.

    Args:
        things: things of the task.
        cameras: names of the cameras to render.

    Attributes:
        targets: targets of both arms, float64 `[14]`: six joints and the gripper of each.
    """

    def __init__(self, things: Sequence[Thing], cameras: Sequence[str]) -> None:
        sapien.render.set_camera_shader_dir(SHADER)
        self._scene = sapien.Scene()
        self._scene.timestep = STEP
        self._scene.default_physical_material = self._scene.create_physical_material(
            FRICTION, FRICTION, 0.0
        )
        for thing in _ROOM:
            self._add(thing)
        self._things = {thing.name: self._add(thing) for thing in things}
        self._arms = [self._robot(base) for base in arm.BASES]
        self._joints = [robot.active_joints for robot in self._arms]
        self._cameras = {name: self._camera(name) for name in cameras}
        home = [*arm.HOME, 1.0]
        self.targets = np.array([*home, *home])
        self._opened = np.ones(2)

    def step(
        self, arms: Sequence[np.ndarray], speeds: Sequence[np.ndarray], grippers: np.ndarray
    ) -> None:
        """Simulate one step of physics.

        Args:
            arms: target joints `[6]` of each arm, rad.
            speeds: target joint speeds `[6]` of each arm, rad/s.
            grippers: target values `[2]` of the grippers, 1 open.
        """
        self._opened = np.minimum(grippers, self._opened + OPENING_STEP)
        for side, joints in enumerate(self._joints):
            for joint, target, speed in zip(joints, arms[side], speeds[side], strict=False):
                joint.set_drive_target(float(target))
                joint.set_drive_velocity_target(float(speed))
            for finger in joints[6:]:
                finger.set_drive_target(float(self._opened[side]) * arm.OPENING)
            self.targets[7 * side : 7 * side + 6] = arms[side]
        self.targets[[6, 13]] = grippers
        self._scene.step()

    def settle(self, steps: int) -> None:
        """Simulate `steps` steps with constant targets, in which things come to rest."""
        for _ in range(steps):
            self._scene.step()

    def position(self, thing: str) -> np.ndarray:
        """Return the position of a thing's centre, float64 `[3]`, m."""
        return np.array(self._things[thing].pose.p, dtype=np.float64)

    def turn(self, thing: str) -> np.ndarray:
        """Return the rotation matrix of a thing, `[3, 3]`."""
        return np.array(self._things[thing].pose.to_transformation_matrix()[:3, :3], np.float64)

    def joints(self, side: int) -> np.ndarray:
        """Return the actual joints of an arm and its fingers, float64 `[8]`."""
        return np.array(self._arms[side].qpos, dtype=np.float64)

    def hand(self, side: int) -> np.ndarray:
        """Return the pose of RoboTwin's hand frame, float64 `[7]`: m, and quaternion w, x, y, z."""
        (link,) = (link for link in self._arms[side].links if link.name == "hand")
        pose = link.entity_pose * sapien.Pose([-BEHIND, 0.0, 0.0])
        return np.array([*pose.p, *pose.q], dtype=np.float64)

    def frames(self) -> dict[str, np.ndarray]:
        """Render every camera; return frames uint8 `[240, 320, 3]` by camera."""
        self._scene.update_render()
        for camera in self._cameras.values():
            camera.take_picture()
        return {
            name: (camera.get_picture("Color")[..., :3] * 255).clip(0, 255).astype(np.uint8)
            for name, camera in self._cameras.items()
        }

    # -- building ---------------------------------------------------------------------------

    def _add(self, thing: Thing) -> sapien.Entity:
        builder = self._scene.create_actor_builder()
        builder.add_box_collision(half_size=thing.half)
        for half, colour in arm.shaded(thing.half, thing.colour):
            builder.add_box_visual(half_size=half, material=list(colour))
        builder.set_initial_pose(_pose(thing.position, thing.yaw))
        return builder.build_static(thing.name) if thing.fixed else builder.build(thing.name)

    def _robot(self, base: tuple[float, ...]) -> sapien.physx.PhysxArticulation:
        loader = self._scene.create_urdf_loader()
        loader.fix_root_link = True
        with robot_files() as folder:
            robot = loader.load(str(folder / "arm.urdf"))
        robot.set_root_pose(_pose(base, arm.YAW))
        rest = [*arm.HOME.tolist(), arm.OPENING, arm.OPENING]
        robot.set_qpos(rest)
        for joint, target in zip(robot.active_joints, rest, strict=True):
            joint.set_drive_properties(STIFFNESS, DAMPING)
            joint.set_drive_target(target)
        for link in robot.links:  # as RoboTwin compensates gravity
            link.disable_gravity = True
        return robot

    def _camera(self, name: str) -> sapien.render.RenderCameraComponent:
        lens = (WIDTH, HEIGHT, VIEW, *CLIPPING)
        if name == HEAD:
            camera = self._scene.add_camera(name, *lens)
            camera.entity.set_pose(_looking(HEAD_AT, HEAD_LOOKS, (-1.0, 0.0, 0.0)))
            return camera
        robot = self._arms[WRISTS.index(name)]
        (link,) = (link for link in robot.links if link.name == "camera")
        pose = _looking((0.0, 0.0, 0.0), WRIST_LOOKS, (0.0, 1.0, 0.0))
        return self._scene.add_mounted_camera(name, link.entity, pose, *lens)


_ROOM = (
    Thing("table", (0.6, 0.35, 0.025), (0.85, 0.83, 0.8), (0, 0, TABLE - 0.025), fixed=True),
    Thing("wall", (3.0, 0.6, 1.5), (1.0, 0.9, 0.9), (0, 1.0, 1.5), fixed=True),
    Thing("floor", (3.0, 3.0, 0.05), (0.5, 0.5, 0.52), (0, 0, -0.05), fixed=True),
)


@contextmanager
def robot_files() -> Iterator[Path]:
    """Yield a temporary folder with `arm.urdf` and `arm.srdf`.

    It exists only within the context, because a simulator process may be killed at any time after.
    """
    with TemporaryDirectory(prefix="rlcore-robotwin-") as folder:
        path = Path(folder)
        (path / "arm.urdf").write_text(arm.urdf("arm"))
        (path / "arm.srdf").write_text(arm.srdf("arm"))
        yield path


def _pose(position: Sequence[float], yaw: float) -> sapien.Pose:
    return sapien.Pose(list(position), [np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2)])


def _looking(
    position: Sequence[float], forward: Sequence[float], left: Sequence[float]
) -> sapien.Pose:
    """Return the pose of a camera, which looks along its x-axis with y to the left."""
    matrix = np.eye(4)
    matrix[:3, 0] = np.array(forward) / np.linalg.norm(forward)
    matrix[:3, 1] = left
    matrix[:3, 2] = np.cross(matrix[:3, 0], matrix[:3, 1])
    matrix[:3, 3] = position
    return sapien.Pose(matrix)
