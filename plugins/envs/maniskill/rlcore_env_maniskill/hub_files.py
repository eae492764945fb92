"""List the files of the benchmark's put-on-plate assets, and find missing ones. Loads no simulator.

The data set RLinf/maniskill_assets contains the folders `carrot/more_carrot`, `carrot/more_plate`
and `carrot/more_table`. A model's number is its position in the folder's `model_db.json`. The room
and the arm are ManiSkill's own downloads; they are looked up in the same folder first, then in
ManiSkill's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from rlcore_simulation.downloads import TRY_OUT, is_whole
from rlcore_simulation.downloads import download_command as hub_command

from rlcore.contracts.errors import AssetError
from rlcore.files import hub
from rlcore.files.reading import read_json

DATA_SET = "RLinf/maniskill_assets"
OBJECT_FOLDER = "carrot/more_carrot"
PLATE_FOLDER = "carrot/more_plate"
TABLE_FOLDER = "carrot/more_table"
DATABASE = "model_db.json"
VISUALS = ("textured.obj", "textured.dae", "textured.glb")
# files that ManiSkill downloads, and the asset name for its download command
ROOM = "tasks/bridge_v2_real2sim_dataset/stages/bridge_table_1_v1.glb"
ARM = "robots/widowx/wx250s.urdf"
DOWNLOADS = {ROOM: "bridge_v2_real2sim", ARM: "widowx250s"}

VARIABLE = "MANISKILL_ASSET_DIR"  # RLinf's


def assets_folder(path: str | None) -> Path:
    """Return the folder of the benchmark's assets.

    It is `path` (the key `assets_path`) if given, else the value of the environment variable
    MANISKILL_ASSET_DIR. Otherwise it is the first folder that contains objects, of
    :func:`download_folder` and the snapshots in the hub's cache; :func:`download_folder` if none
    does.
    """
    if path is not None or os.environ.get(VARIABLE):
        return Path(path if path is not None else os.environ[VARIABLE]).expanduser()
    places = [download_folder(), *hub.snapshots(DATA_SET, "dataset")]
    return next((root for root in places if (root / OBJECT_FOLDER).is_dir()), places[0])


def download_folder() -> Path:
    """Return the folder that the data set is downloaded to.

    In a clone of the repository it is `assets` next to this package, as in RLinf; else it is a
    folder in the user's cache.
    """
    clone = Path(__file__).parents[1]
    if (clone / "pyproject.toml").is_file():
        return clone / "assets"
    return Path.home() / ".cache" / "rlcore" / "maniskill_assets"


def require_files(root: Path) -> None:
    """Check that all files of the task exist, and that the databases that list them are valid.

    Raises:
        AssetError: files are missing or a database is damaged; the error names them and the
            commands that download them.
    """
    missing = missing_files(root)
    if missing:
        raise AssetError(
            f"put-on-plate: {len(missing)} asset file(s) missing in {root}: {', '.join(missing)}",
            hint=f"{download_command(root, missing)}  {TRY_OUT}",
        )


def missing_files(root: Path) -> list[str]:
    """Return the files that the task needs and that do not exist, relative to `root`.

    A Git LFS pointer, an empty file and a file without read permission count as missing.

    Raises:
        AssetError: a database that lists the files is damaged.
    """
    missing = [name for name in (ROOM, ARM) if not is_whole(found(root, name))]
    for folder in (OBJECT_FOLDER, PLATE_FOLDER, TABLE_FOLDER):
        name = f"{folder}/{DATABASE}"
        if not is_whole(root / name):
            missing.append(name)
            continue
        for key, facts in database(root, folder).items():
            if folder == TABLE_FOLDER:
                needed = [f"imgs/{key}", f"textures/{facts['texture']}"]
            else:
                mesh = visual(root / folder / key)
                needed = [f"{key}/collision.obj", f"{key}/{mesh.name if mesh else VISUALS[-1]}"]
            missing += [f"{folder}/{name}" for name in needed if not is_whole(root / folder / name)]
    return missing


def download_command(root: Path, missing: Sequence[str] = (DATABASE, *DOWNLOADS)) -> str:
    """Return the shell commands that download the missing files; by default, all files."""
    commands = []
    if any(name not in DOWNLOADS for name in missing):
        commands.append(hub_command(DATA_SET, root))
    commands += [
        f"python -m mani_skill.utils.download_asset {DOWNLOADS[name]} -y"
        for name in missing
        if name in DOWNLOADS
    ]
    return " && ".join(commands)


def found(root: Path, name: str) -> Path:
    """Return the path of a file below `root` if it exists there, else in ManiSkill's folder."""
    own = root / name
    return own if own.is_file() else maniskills_own() / name


def database(root: Path, folder: str) -> dict[str, dict[str, Any]]:
    """Return the entries of a folder's `model_db.json` by model, in the order of their numbers.

    Raises:
        AssetError: the file can't be read, or an entry lacks a value that the task needs.
    """
    path = root / folder / DATABASE
    try:
        models = read_json(path)
        for key, facts in models.items():
            _check_facts(key, facts, table=folder == TABLE_FOLDER)
    except (OSError, ValueError, LookupError, AttributeError, TypeError) as error:
        raise AssetError(
            f"{path} is damaged: {error!r}",
            hint=f"delete it, then {download_command(root, [f'{folder}/{DATABASE}'])}",
        ) from error
    return models


def _check_facts(key: str, facts: Mapping[str, Any], *, table: bool) -> None:
    """Raise an error of :func:`database` if a model's entry lacks a value that the task reads."""
    if table:
        _ = str(facts["texture"]), float(facts["mix"])
        return
    _ = str(facts["name"]), float(facts.get("density", 0)), float(facts.get("scales", [1.0])[0])
    for end in ("min", "max"):
        x, y, z = map(float, facts["bbox"][end])
        if not all(map(isfinite, (x, y, z))):
            raise ValueError(f"the bbox of {key} is not finite")


def visual(folder: Path) -> Path | None:
    """Return the visual mesh in a model's folder; None without one."""
    return next((folder / name for name in VISUALS if (folder / name).is_file()), None)


def maniskills_own() -> Path:
    """Return ManiSkill's download folder, by ManiSkill's rule but without importing it."""
    return Path(os.getenv("MS_ASSET_DIR", Path.home() / ".maniskill")) / "data"
