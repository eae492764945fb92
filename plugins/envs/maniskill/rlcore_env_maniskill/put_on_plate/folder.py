"""Read the benchmark's assets from a copy of the data set RLinf/maniskill_assets.

:mod:`rlcore_env_maniskill.hub_files` lists the files.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import sapien

from rlcore.contracts.errors import AssetError
from rlcore_env_maniskill import hub_files
from rlcore_env_maniskill.put_on_plate.assets import Assets, Model, Robot


def read_folder(path: str) -> Assets:
    """Read all assets below `path`.

    Raises:
        AssetError: files are missing or damaged; the error names them and the download commands.
    """
    root = Path(path)
    hub_files.require_files(root)
    room = hub_files.found(root, hub_files.ROOM)
    return Assets(
        kind="hub",
        objects=_models(root, hub_files.OBJECT_FOLDER),
        plates=_models(root, hub_files.PLATE_FOLDER),
        tables=_tables(root),
        robot=_widowx(hub_files.found(root, hub_files.ARM)),
        build_room=lambda scene: _build_room(scene, room),
    )


@dataclass(frozen=True)
class MeshModel(Model):
    """An object or plate of the data set: convex collision shapes and a textured visual mesh."""

    folder: Path
    scale: float
    density: float

    def add_to(self, builder: Any, material: Any) -> None:
        scale = [self.scale] * 3
        builder.add_multiple_convex_collisions_from_file(
            filename=str(self.folder / "collision.obj"),
            scale=scale,
            material=material,
            density=self.density,
        )
        builder.add_visual_from_file(filename=str(hub_files.visual(self.folder)), scale=scale)


@dataclass(frozen=True)
class PhotoTable:
    """A table given by the files of its photograph and its texture."""

    photo: Path
    texture_file: Path
    mix: float

    def image(self, height: int, width: int) -> np.ndarray:
        return _read(self.photo, height, width)

    def texture(self, height: int, width: int) -> np.ndarray:
        return _read(self.texture_file, height, width)


def _models(root: Path, folder: str) -> tuple[MeshModel, ...]:
    models = []
    for key, facts in hub_files.database(root, folder).items():
        scale = facts.get("scales", [1.0])[0]
        low, high = (scale * np.array(facts["bbox"][end]) for end in ("min", "max"))
        models.append(
            MeshModel(
                key=key,
                name=facts["name"],
                folder=root / folder / key,
                size=high - low,
                depth=-float(low[2]),
                scale=scale,
                density=facts.get("density", 1000),
            )
        )
    return tuple(models)


def _tables(root: Path) -> tuple[PhotoTable, ...]:
    folder = root / hub_files.TABLE_FOLDER
    return tuple(
        PhotoTable(folder / "imgs" / key, folder / "textures" / facts["texture"], facts["mix"])
        for key, facts in hub_files.database(root, hub_files.TABLE_FOLDER).items()
    )


def _read(path: Path, height: int, width: int) -> np.ndarray:
    image = cv2.imread(str(path))
    if image is None:
        raise AssetError(f"{path} is not an image", hint="download it again")
    shrinks = height < image.shape[0] or width < image.shape[1]
    resized = cv2.resize(
        image, (width, height), interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
    )
    return cv2.cvtColor(resized, cv2.COLOR_BGR2RGB)


def _widowx(urdf: Path) -> Robot:
    from mani_skill.envs.tasks.digital_twins.bridge_dataset_eval.base_env import (
        WidowX250SBridgeDatasetFlatTable,
    )

    # the task defines its own camera, and the URDF may be outside ManiSkill's folder
    agent = type(
        "WidowXAtTable",
        (WidowX250SBridgeDatasetFlatTable,),
        {"urdf_path": str(urdf), "_sensor_configs": []},
    )
    return Robot(
        name="widowx250s",
        agent=agent,
        control_mode="arm_pd_ee_target_delta_pose_align2_gripper_pd_joint_pos",
        base=sapien.Pose([0.147, 0.028, 0.870], [0, 0, 0, 1]),
        # joint positions of the robot in the BridgeData V2 recordings
        qpos=np.array(
            [-0.01840777, 0.0398835, 0.22242722, -0.00460194, 1.36524296, 0.00153398, 0.037, 0.037]
        ),
        arm_joints=(0, 1, 2, 3, 4, 5),
        tcp_link="ee_gripper_link",
    )


def _build_room(scene: Any, file: Path) -> None:
    builder = scene.create_actor_builder()
    upright = sapien.Pose(q=[0.707, 0.707, 0, 0])
    builder.add_nonconvex_collision_from_file(str(file), pose=upright)
    builder.add_visual_from_file(str(file), pose=upright)
    builder.initial_pose = sapien.Pose([2.0634, 2.8313, 0.0])
    builder.build_static(name="room")
