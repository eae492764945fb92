"""The benchmark's assets, read from a copy of the data set RLinf/maniskill_assets.

Layout: `carrot/more_carrot`, `carrot/more_plate`, `carrot/more_table`, each with a
`model_db.json` in the order in which ids count. The room and the arm are ManiSkill's own
downloads; they are looked for in the same folder, then where ManiSkill keeps them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import sapien
from mani_skill import ASSET_DIR

from rlcore.errors import AssetError
from rlcore_env_maniskill.put_on_plate.assets import Assets, Robot
from rlcore_env_maniskill.sentences import DATABASE, OBJECT_FOLDER, PLATE_FOLDER

DATA_SET = "RLinf/maniskill_assets"
TABLE_FOLDER = "carrot/more_table"
VISUALS = ("textured.obj", "textured.dae", "textured.glb")
# files of ManiSkill's own downloads, and the download each comes with
ROOM = "tasks/bridge_v2_real2sim_dataset/stages/bridge_table_1_v1.glb"
ARM = "robots/widowx/wx250s.urdf"
DOWNLOADS = {ROOM: "bridge_v2_real2sim", ARM: "widowx250s"}


def read_folder(path: str) -> Assets:
    """All assets below `path`.

    Raises:
        AssetError: files are missing; names them and the commands that bring them.
    """
    root = Path(path).expanduser()
    missing = missing_files(root)
    if missing:
        shown = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
        raise AssetError(
            f"put-on-plate lacks {len(missing)} asset file(s) in {root}: {shown}",
            hint=download_command(root, missing),
        )
    room = _found(root, ROOM)
    return Assets(
        kind="hub",
        objects=_models(root / OBJECT_FOLDER),
        plates=_models(root / PLATE_FOLDER),
        tables=_tables(root / TABLE_FOLDER),
        robot=_widowx(_found(root, ARM)),
        build_room=lambda scene: _build_room(scene, room),
    )


def missing_files(root: Path) -> list[str]:
    """What is not there of what the task needs, relative to `root`."""
    missing = [name for name in (ROOM, ARM) if not _found(root, name).is_file()]
    for folder in (OBJECT_FOLDER, PLATE_FOLDER, TABLE_FOLDER):
        if not (root / folder / DATABASE).is_file():
            missing.append(f"{folder}/{DATABASE}")
            continue
        for key, facts in _database(root / folder).items():
            if folder == TABLE_FOLDER:
                needed = [f"imgs/{key}", f"textures/{facts['texture']}"]
            else:
                needed = [f"{key}/collision.obj"]
                if _visual(root / folder / key) is None:
                    missing.append(f"{folder}/{key}/{VISUALS[-1]}")
            missing += [
                f"{folder}/{name}" for name in needed if not (root / folder / name).exists()
            ]
    return missing


def download_command(root: Path, missing: list[str]) -> str:
    """The commands that bring the missing files."""
    commands = []
    if any(name not in DOWNLOADS for name in missing):
        commands.append(f"hf download --repo-type dataset {DATA_SET} --local-dir {root}")
    commands += [
        f"python -m mani_skill.utils.download_asset {DOWNLOADS[name]} -y"
        for name in missing
        if name in DOWNLOADS
    ]
    return " && ".join(commands)


@dataclass(frozen=True)
class MeshModel:
    """An object or plate of the data set: convex pieces to touch, a textured mesh to see."""

    key: str
    name: str
    folder: Path
    size: np.ndarray
    depth: float
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
        builder.add_visual_from_file(filename=str(_visual(self.folder)), scale=scale)


@dataclass(frozen=True)
class PhotoTable:
    """A photographed table and its texture."""

    photo: Path
    texture_file: Path
    mix: float

    def image(self, height: int, width: int) -> np.ndarray:
        return _read(self.photo, height, width)

    def texture(self, height: int, width: int) -> np.ndarray:
        return _read(self.texture_file, height, width)


def _found(root: Path, name: str) -> Path:
    own = root / name
    return own if own.is_file() else Path(ASSET_DIR) / name


def _database(folder: Path) -> dict[str, dict[str, Any]]:
    with open(folder / DATABASE, encoding="utf-8") as file:
        return json.load(file)


def _models(folder: Path) -> tuple[MeshModel, ...]:
    models = []
    for key, facts in _database(folder).items():
        scale = facts.get("scales", [1.0])[0]
        low, high = (scale * np.array(facts["bbox"][end]) for end in ("min", "max"))
        models.append(
            MeshModel(
                key=key,
                name=facts["name"],
                folder=folder / key,
                size=high - low,
                depth=-float(low[2]),
                scale=scale,
                density=facts.get("density", 1000),
            )
        )
    return tuple(models)


def _tables(folder: Path) -> tuple[PhotoTable, ...]:
    return tuple(
        PhotoTable(folder / "imgs" / key, folder / "textures" / facts["texture"], facts["mix"])
        for key, facts in _database(folder).items()
    )


def _visual(folder: Path) -> Path | None:
    return next((folder / name for name in VISUALS if (folder / name).is_file()), None)


def _read(path: Path, height: int, width: int) -> np.ndarray:
    image = cv2.imread(str(path))
    if image is None:
        raise AssetError(f"{path} is no image", hint="download it again")
    shrinks = height < image.shape[0] or width < image.shape[1]
    resized = cv2.resize(
        image, (width, height), interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
    )
    return cv2.cvtColor(resized, cv2.COLOR_BGR2RGB)


def _widowx(urdf: Path) -> Robot:
    from mani_skill.envs.tasks.digital_twins.bridge_dataset_eval.base_env import (
        WidowX250SBridgeDatasetFlatTable,
    )

    # the task brings the camera, and the file may lie outside ManiSkill's own folder
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
        # measured on the robot of the BridgeData V2 recordings
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
