"""Which files the benchmark's put-on-plate assets consist of, and which are missing. Light.

The data set RLinf/maniskill_assets holds `carrot/more_carrot`, `carrot/more_plate` and
`carrot/more_table`, each with a `model_db.json` whose order numbers the models. The room and the
arm are ManiSkill's own downloads; we look for them in the same folder, then where ManiSkill keeps
them.
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
OBJECT_FOLDER, PLATE_FOLDER, TABLE_FOLDER = (
    f"carrot/{name}" for name in ("more_carrot", "more_plate", "more_table")
)
DATABASE = "model_db.json"
VISUALS = ("textured.obj", "textured.dae", "textured.glb")
# files of ManiSkill's own downloads, and the name of each download
ROOM = "tasks/bridge_v2_real2sim_dataset/stages/bridge_table_1_v1.glb"
ARM = "robots/widowx/wx250s.urdf"
DOWNLOADS = {ROOM: "bridge_v2_real2sim", ARM: "widowx250s"}

VARIABLE = "MANISKILL_ASSET_DIR"  # RLinf's


def assets_folder(path: str | None) -> Path:
    """The folder of `assets_path`, else of the environment variable, else the first that has
    objects: where the documents download the data set to, or the hub's cache; the former, if there
    is none."""
    if path is not None or os.environ.get(VARIABLE):
        return Path(path if path is not None else os.environ[VARIABLE]).expanduser()
    places = [download_folder(), *hub.snapshots(DATA_SET, "dataset")]
    return next((root for root in places if (root / OBJECT_FOLDER).is_dir()), places[0])


def download_folder() -> Path:
    """`assets` beside this package in a clone, as RLinf has it beside its env; without a clone, a
    folder of the user's cache."""
    clone = Path(__file__).parents[1]
    if (clone / "pyproject.toml").is_file():
        return clone / "assets"
    return Path.home() / ".cache" / "rlcore" / "maniskill_assets"


def require_files(root: Path) -> None:
    """Check that all files of the task exist and are valid.

    Raises:
        AssetError: names every missing file, or the damaged one, and the commands that download
            them.
    """
    missing = missing_files(root)
    if missing:
        raise AssetError(
            f"put-on-plate: {len(missing)} asset file(s) missing in {root}: {', '.join(missing)}",
            hint=f"{download_command(root, missing)}  {TRY_OUT}",
        )


def missing_files(root: Path) -> list[str]:
    """Files that the task needs and that do not exist, relative to `root`; a pointer of Git LFS
    counts as missing, and so do an empty file and one that this user may not read.

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
    """The commands that download the missing files; all commands if no file is named."""
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
    """A file in the folder, or else among ManiSkill's own downloads."""
    own = root / name
    return own if own.is_file() else maniskills_own() / name


def database(root: Path, folder: str) -> dict[str, dict[str, Any]]:
    """The facts of a folder's models, in the order of their numbers.

    Raises:
        AssetError: the file can't be read, or lacks something that the task needs.
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
    """Raises if a model's entry lacks what we read from it."""
    if table:
        _ = str(facts["texture"]), float(facts["mix"])
        return
    _ = str(facts["name"]), float(facts.get("density", 0)), float(facts.get("scales", [1.0])[0])
    for end in ("min", "max"):
        x, y, z = map(float, facts["bbox"][end])
        if not all(map(isfinite, (x, y, z))):
            raise ValueError(f"the bbox of {key} is not finite")


def visual(folder: Path) -> Path | None:
    """The visual mesh of a model."""
    return next((folder / name for name in VISUALS if (folder / name).is_file()), None)


def maniskills_own() -> Path:
    """Where ManiSkill keeps its downloads: the same rule as its own, without loading it."""
    return Path(os.getenv("MS_ASSET_DIR", Path.home() / ".maniskill")) / "data"
