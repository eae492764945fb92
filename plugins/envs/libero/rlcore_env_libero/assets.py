"""Which files LIBERO's scenes consist of, where they are, and which are missing. Light.

LIBERO itself would download them while a simulator is built, and retry for a minute without a
network. So we look before a run.
"""

from __future__ import annotations

import os
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Mapping
from importlib import util
from pathlib import Path

from rlcore_simulation.downloads import TRY_OUT, download_command, is_whole

from rlcore.contracts.errors import AssetError
from rlcore.files import hub
from rlcore.terminal.text import some
from rlcore_env_libero.installed import ASSETS_PACKAGE, COMMAND, REPAIR, libero_folder
from rlcore_env_libero.problem import Problem, read_problem, task_file

DATA_SET = "lerobot/libero-assets"
SCENE_FOLDER = "scenes"
OBJECT_CLASSES = "envs/objects"  # in LIBERO's folder
INSIDE = ("assets", "libero/assets", "libero/libero/assets")  # of LIBERO's repository
GREY = ("light-gray-floor-tile", "light-gray-plaster")
# By the kind of the scene: its file, and the textures that LIBERO puts on floor and walls.
SCENES = {
    "libero_floor_manipulation": ("libero_floor_base_style", GREY),
    "libero_tabletop_manipulation": ("libero_tabletop_base_style", GREY),
    "libero_kitchen_tabletop_manipulation": (
        "libero_kitchen_tabletop_base_style",
        ("gray_ceramic_tile", "yellow_linen_wall_texture"),
    ),
    "libero_living_room_tabletop_manipulation": (
        "libero_living_room_tabletop_base_style",
        ("seamless_wood_planks_floor", "light-gray-plaster"),
    ),
    "libero_study_tabletop_manipulation": ("libero_study_base_style", GREY),
}
# Fixtures that are the scene itself.
WORKSPACES = ("floor", "table", "kitchen_table", "living_room_table", "study_table")


def assets_folder(path: str | None) -> Path:
    """The folder of `assets_path`, else the first of those that has scenes: where LIBERO or the hub
    keep what a user has put there, then what pip has installed; LIBERO's, if there is none."""
    if path is not None:
        return Path(path)
    own = libero_folder() / "assets"
    places = [own, download_folder(), *hub.snapshots(DATA_SET, "dataset"), *_packaged()]
    return next(filter(has_scenes, places), download_folder())


def has_scenes(folder: Path) -> bool:
    """Whether it is a folder of assets. LIBERO makes an empty one before it downloads, and the hub
    begins with notes of its own."""
    return os.path.isdir(folder / SCENE_FOLDER)  # no error where another user's may not be entered


def download_folder() -> Path:
    """Where LIBERO keeps its downloads."""
    return Path.home() / ".cache" / "libero" / "assets"


def _packaged() -> list[Path]:
    """What pip has installed of them."""
    found = util.find_spec(ASSETS_PACKAGE)
    places = (found.submodule_search_locations or ()) if found else ()
    return [Path(place) / "assets" for place in places]


def command_for(root: Path) -> str:
    """The command that brings the assets: ours, where there are none or pip has installed them,
    else the hub's."""
    ours = root in _packaged() or (root == download_folder() and not has_scenes(root))
    return COMMAND if ours else download_command(DATA_SET, root)


def require_assets(root: Path, tasks: Iterable[str]) -> None:
    """Check that all files of these tasks are there.

    Raises:
        AssetError: names the missing ones and the command that downloads them.
    """
    missing = sorted(missing_files(root, tasks))
    if missing:
        named = some(missing, 3)
        message = f"LIBERO's assets: {len(missing)} file(s) missing or damaged in {root}: {named}"
        meant = _meant(root)
        if meant is not None:
            raise AssetError(f"{message}; did you mean {meant}?", hint=f"assets_path={meant}")
        raise AssetError(message, hint=f"{command_for(root)}  {TRY_OUT}")


def _meant(root: Path) -> Path | None:
    """The folder of assets above or below one that is none, as in a checkout of LIBERO."""
    if has_scenes(root):
        return None
    near = (root.parent, *(root / inner for inner in INSIDE))
    return next(filter(has_scenes, near), None)


def missing_files(root: Path, tasks: Iterable[str]) -> set[str]:
    """Files that the tasks need and that do not exist, relative to `root`; a pointer of Git LFS
    counts as missing, and so do an empty file, one that this user may not read and an XML file that
    can't be parsed.

    Raises:
        AssetError: LIBERO's own code does not say where an object's file is.
    """
    missing: set[str] = set()
    libero = libero_folder()
    places = object_files(libero)
    problems = (read_problem(task_file(libero, task)) for task in tasks)
    for file in {root / found for problem in problems for found in _files(problem, places)}:
        parts = _parts(file)
        lacking = [file] if parts is None else [part for part in parts if not is_whole(part)]
        missing |= {os.path.relpath(path, root) for path in lacking}
    return missing


def object_files(libero: Path) -> dict[str, str]:
    """By category, the XML file of an object or fixture below the folder of assets, as the classes
    in LIBERO's folder name it. Their text is read: importing them takes seconds."""
    found = {}
    for file in (libero / OBJECT_CLASSES).glob("*_objects.py"):
        text = file.read_text(encoding="utf-8")
        for pattern in re.findall(r'f"([\w/{}]+\.xml)"', text):
            for name in re.findall(r'^[^#\n]*obj_name="(\w+)"', text, re.MULTILINE):
                found[name] = pattern.replace("{obj_name}", name)
    return found


def _files(problem: Problem, places: Mapping[str, str]) -> Iterator[str]:
    """The XML files of a task's scene, and the textures of its floor and walls."""
    scene, textures = SCENES[problem.kind]
    yield f"{SCENE_FOLDER}/{scene}.xml"
    for texture in textures:
        yield f"textures/{texture}.png"
    for category in {*problem.fixtures.values(), *problem.objects.values()}.difference(WORKSPACES):
        if category not in places:
            raise AssetError(
                f"LIBERO's {OBJECT_CLASSES} does not say where the file of {category} is",
                hint=REPAIR,
            )
        yield places[category]


def _parts(file: Path) -> list[Path] | None:
    """Meshes and textures that an XML file names, none of another file; None where the file itself
    is missing or damaged."""
    if not is_whole(file):
        return None
    if file.suffix != ".xml":
        return []
    try:
        named = ET.parse(file).getroot().findall("asset/*[@file]")
    except ET.ParseError:
        return None
    return [Path(os.path.normpath(file.parent / part.get("file", ""))) for part in named]
