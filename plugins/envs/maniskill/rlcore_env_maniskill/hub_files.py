"""Which files the benchmark's put-on-plate assets are, and what is missing of them. Light.

The data set RLinf/maniskill_assets holds `carrot/more_carrot`, `carrot/more_plate`,
`carrot/more_table`, each with a `model_db.json` in the order in which ids count. The room and the
arm are ManiSkill's own downloads; they are looked for in the same folder, then where ManiSkill
keeps them.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

DATA_SET = "RLinf/maniskill_assets"
OBJECT_FOLDER, PLATE_FOLDER, TABLE_FOLDER = (
    f"carrot/{name}" for name in ("more_carrot", "more_plate", "more_table")
)
DATABASE = "model_db.json"
VISUALS = ("textured.obj", "textured.dae", "textured.glb")
# files of ManiSkill's own downloads, and the download each comes with
ROOM = "tasks/bridge_v2_real2sim_dataset/stages/bridge_table_1_v1.glb"
ARM = "robots/widowx/wx250s.urdf"
DOWNLOADS = {ROOM: "bridge_v2_real2sim", ARM: "widowx250s"}


def missing_files(root: Path) -> list[str]:
    """What is not there of what the task needs, relative to `root`."""
    missing = [name for name in (ROOM, ARM) if not found(root, name).is_file()]
    for folder in (OBJECT_FOLDER, PLATE_FOLDER, TABLE_FOLDER):
        if not (root / folder / DATABASE).is_file():
            missing.append(f"{folder}/{DATABASE}")
            continue
        for key, facts in database(root / folder).items():
            if folder == TABLE_FOLDER:
                needed = [f"imgs/{key}", f"textures/{facts['texture']}"]
            else:
                needed = [f"{key}/collision.obj"]
                if visual(root / folder / key) is None:
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


def found(root: Path, name: str) -> Path:
    """A file in the folder, or else where ManiSkill's own downloads lie."""
    own = root / name
    return own if own.is_file() else maniskills_own() / name


def database(folder: Path) -> dict[str, dict[str, Any]]:
    """What is known of a folder's models, in the order in which ids count."""
    with open(folder / DATABASE, encoding="utf-8") as file:
        return json.load(file)


def visual(folder: Path) -> Path | None:
    """The mesh of a model that is to be seen."""
    return next((folder / name for name in VISUALS if (folder / name).is_file()), None)


def maniskills_own() -> Path:
    """Where ManiSkill keeps its downloads; as it decides itself, without loading it."""
    return Path(os.getenv("MS_ASSET_DIR", Path.home() / ".maniskill")) / "data"
