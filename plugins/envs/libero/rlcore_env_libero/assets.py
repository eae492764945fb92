"""Which files LIBERO's scenes consist of, where they are, and which are missing. Light.

LIBERO itself would download them while a simulator is built, and retry for a minute without a
network. So we look before a run.
"""

from __future__ import annotations

import os
import shlex
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator
from pathlib import Path

from rlcore.errors import AssetError
from rlcore_env_libero.installed import libero_folder
from rlcore_env_libero.problem import Problem, read_problem, task_file

DATA_SET = "lerobot/libero-assets"
# Kinds of objects, each a folder; the first holds a file per object, the others a folder.
ARTICULATED = "articulated_objects"
FOLDERS = ("stable_hope_objects", "stable_scanned_objects", "turbosquid_objects")
SCENE_FOLDER = "scenes"
INSIDE = ("assets", "libero/assets", "libero/libero/assets")  # of LIBERO's repository
# By the kind of the scene: its file, and the textures that LIBERO puts on floor and walls.
SCENES = {
    "libero_floor_manipulation": (
        "libero_floor_base_style",
        ("light-gray-floor-tile", "light-gray-plaster"),
    ),
    "libero_tabletop_manipulation": (
        "libero_tabletop_base_style",
        ("light-gray-floor-tile", "light-gray-plaster"),
    ),
    "libero_kitchen_tabletop_manipulation": (
        "libero_kitchen_tabletop_base_style",
        ("gray_ceramic_tile", "yellow_linen_wall_texture"),
    ),
    "libero_living_room_tabletop_manipulation": (
        "libero_living_room_tabletop_base_style",
        ("seamless_wood_planks_floor", "light-gray-plaster"),
    ),
    "libero_study_tabletop_manipulation": (
        "libero_study_base_style",
        ("light-gray-floor-tile", "light-gray-plaster"),
    ),
}
# Fixtures that are the scene itself.
WORKSPACES = ("floor", "table", "kitchen_table", "living_room_table", "study_table")
POINTER = b"version https://git-lfs"  # how a file begins that Git LFS has not downloaded yet


def assets_folder(path: str | None) -> Path:
    """The folder of `assets_path`, else the first of those in which LIBERO or the hub keep them
    that holds anything; the one to download to, if there is none."""
    if path is not None:
        return Path(path)
    places = [libero_folder() / "assets", download_folder(), *_hub_snapshots()]
    return next((place for place in places if holds_anything(place)), download_folder())


def holds_anything(folder: Path) -> bool:
    """Whether it is a folder that is not empty: LIBERO makes one before it downloads."""
    return folder.is_dir() and any(folder.iterdir())


def download_folder() -> Path:
    """Where LIBERO keeps its downloads."""
    return Path.home() / ".cache" / "libero" / "assets"


def _hub_snapshots() -> Iterator[Path]:
    """The data set in the hub's own cache, newest first."""
    snapshots = _hub_cache() / f"datasets--{DATA_SET.replace('/', '--')}" / "snapshots"
    if snapshots.is_dir():
        yield from sorted(snapshots.iterdir(), key=lambda one: (-one.stat().st_mtime, one.name))


def _hub_cache() -> Path:
    """Where huggingface_hub keeps what it downloads."""
    own = os.environ.get
    caches = Path(own("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = Path(own("HF_HOME") or caches / "huggingface")
    cache = own("HF_HUB_CACHE") or own("HUGGINGFACE_HUB_CACHE") or home / "hub"
    return Path(os.path.expandvars(cache)).expanduser()


def download_command(root: Path) -> str:
    """The command that downloads the assets into a folder; the hub fills its own cache."""
    command = f"hf download {DATA_SET} --repo-type dataset"
    if root.is_relative_to(_hub_cache()):
        return command
    return f"{command} --local-dir {shlex.quote(str(root))}"


def require_assets(root: Path, tasks: Iterable[str]) -> None:
    """Check that all files of these tasks are there.

    Raises:
        AssetError: names the missing ones and the command that downloads them.
    """
    missing = sorted(missing_files(root, tasks))
    if missing:
        named = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if missing[3:] else "")
        message = f"LIBERO's assets: {len(missing)} file(s) missing in {root}: {named}"
        meant = _meant(root)
        if meant is not None:
            raise AssetError(f"{message}; did you mean {meant}?", hint=f"assets_path={meant}")
        raise AssetError(
            message, hint=f"{download_command(root)}  (or stand_ins=true to try things out)"
        )


def _meant(root: Path) -> Path | None:
    """The folder of assets above or below one that is none, as in a checkout of LIBERO."""
    if (root / SCENE_FOLDER).is_dir():
        return None
    near = (root.parent, *(root / inner for inner in INSIDE))
    return next((folder for folder in near if (folder / SCENE_FOLDER).is_dir()), None)


def missing_files(root: Path, tasks: Iterable[str]) -> set[str]:
    """Files that the tasks need and that do not exist, relative to `root`; a pointer of Git LFS
    counts as missing, and so does a file that can't be read."""
    missing: set[str] = set()
    libero = libero_folder()
    problems = (read_problem(task_file(libero, task)) for task in tasks)
    for file in {found for problem in problems for found in _descriptions(root, problem)}:
        missing |= {
            os.path.relpath(path, root) for path in (file, *_parts(file)) if not _is_there(path)
        }
    return missing


def _descriptions(root: Path, problem: Problem) -> Iterator[Path]:
    """The XML files of a task's scene, and the textures of its floor and walls."""
    scene, textures = SCENES[problem.kind]
    yield root / SCENE_FOLDER / f"{scene}.xml"
    for texture in textures:
        yield root / "textures" / f"{texture}.png"
    for category in {*problem.fixtures.values(), *problem.objects.values()}.difference(WORKSPACES):
        yield description(root, category)


def description(root: Path, category: str) -> Path:
    """The XML file of an object or fixture; where an articulated one would be, if there is none."""
    places = [root / folder / category / f"{category}.xml" for folder in FOLDERS]
    return next((p for p in places if p.is_file()), root / ARTICULATED / f"{category}.xml")


def _parts(file: Path) -> Iterator[Path]:
    """Meshes and textures that an XML file names."""
    if file.suffix != ".xml" or not _is_there(file):
        return
    try:
        named = ET.parse(file).getroot().findall("asset/*[@file]")
    except ET.ParseError:
        yield file.with_suffix(".damaged")  # no such file, so it shows as missing
        return
    for part in named:
        yield Path(os.path.normpath(file.parent / part.get("file", "")))


def _is_there(path: Path) -> bool:
    if not path.is_file():
        return False
    with open(path, "rb") as file:
        return file.read(len(POINTER)) != POINTER
