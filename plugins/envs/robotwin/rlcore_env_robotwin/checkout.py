"""Find RoboTwin's repository and assets on this machine, and what is missing. Loads no simulator.

If a file is missing, RoboTwin tries one seed after another without end. So rlcore checks the files
before a run.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

from rlcore_simulation.checkout import commit_of

from rlcore.contracts.errors import AssetError
from rlcore.utils.text import abbreviate_list
from rlcore_env_robotwin.arguments import randomization
from rlcore_env_robotwin.settings import RoboTwinConfig

MPLIB = "0.2.1"
NONE = "(none)"
REPOSITORY = "RoboTwin"
BRANCH = "RLinf_support"
CLONE = f"git clone https://github.com/RoboTwin-Platform/RoboTwin.git -b {BRANCH}"
DOWNLOAD = "bash script/_download_assets.sh"
FROM_NOTHING = f"{CLONE} && (cd RoboTwin && {DOWNLOAD}) && export ROBOTWIN_PATH=$PWD/RoboTwin"
# Files that identify the repository, and its branch with a reward for each task.
OF_THE_REPOSITORY = ("envs/_base_task.py", "task_config/_embodiment_config.yml")
OF_THE_BRANCH = "robotwin/envs/vector_env.py"
EMBODIMENTS = "assets/embodiments"
OBJECTS = "assets/objects"
TEXTURES = "assets/background_texture"
# Lists of the objects that may clutter a table. RoboTwin reads them at import.
CLUTTER = (f"{OBJECTS}/objaverse/list.json", f"{OBJECTS}/same.json")


def require_packages(config: RoboTwinConfig) -> None:
    """Check the packages of rlcore's own environment, if the simulators run in it.

    Another environment (`python`) is checked elsewhere before a run.

    Raises:
        AssetError: numpy is not version 1, mplib is missing or has another version (as ManiSkill
            needs), or sapien is missing. With numpy 2, mplib ends the process without a message.
    """
    if config.python is not None:
        return
    installed = {name: _version(name) for name in ("numpy", "mplib", "sapien")}
    if (
        installed["numpy"].startswith("1.")
        and installed["mplib"] == MPLIB
        and installed["sapien"] != NONE
    ):
        return
    has = ", ".join(f"{name} {version}" for name, version in installed.items())
    raise AssetError(
        f"RoboTwin's simulators need numpy 1, mplib {MPLIB} and sapien; rlcore's own environment "
        f"has {has}, and no other one was made for them",
        hint="rlcore venv create robotwin",
    )


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return NONE


def repository(config: RoboTwinConfig) -> Path:
    """Return the path of RoboTwin's repository.

    Raises:
        AssetError: no path is set, or it is not RoboTwin's repository on the branch for
            reinforcement learning.
    """
    if config.robotwin_path is None:
        raise AssetError(
            "robotwin_path, RoboTwin's repository, is not set, nor is ROBOTWIN_PATH; only "
            "stand_ins=true does without",
            hint=FROM_NOTHING,
        )
    folder = Path(config.robotwin_path)
    lacking = [name for name in OF_THE_REPOSITORY if not (folder / name).is_file()]
    if lacking:
        raise AssetError(
            f"robotwin_path: {folder} is not RoboTwin's repository: it has no {lacking[0]}",
            hint=FROM_NOTHING,
        )
    if not (folder / OF_THE_BRANCH).is_file():
        raise AssetError(
            f"robotwin_path: {folder} is RoboTwin, but not its branch {BRANCH}, which has the "
            "rewards",
            hint=f"git -C {folder} fetch origin {BRANCH} && git -C {folder} checkout {BRANCH}",
        )
    return folder


def code_versions(config: RoboTwinConfig) -> dict[str, str]:
    """Return the commit of the repository, "unknown" if it can't be read; empty without a path.

    The repository is not checked.
    """
    folder = config.robotwin_path
    return {} if folder is None else {REPOSITORY: commit_of(Path(folder))}


def assets_root(config: RoboTwinConfig) -> Path:
    """Return the folder that contains RoboTwin's folder `assets`."""
    return Path(config.assets_path or repository(config))


def require_assets(config: RoboTwinConfig, tasks: Iterable[str]) -> None:
    """Check that the repository and the assets of these tasks exist.

    Raises:
        AssetError: something is missing; the error names it and the command that downloads it.
    """
    folder = repository(config)
    root = assets_root(config)
    missing = list(_missing(config, folder, root, tasks))
    if missing:
        listed = abbreviate_list(missing, 3)
        raise AssetError(
            f"RoboTwin's assets are missing or empty in {root}: {listed}; only stand_ins=true does "
            "without",
            hint=_getting(folder, root),
        )


def _getting(folder: Path, root: Path) -> str:
    """Return the hint how to get the assets into the folder in which they are expected."""
    if (root / "embodiments").is_dir():  # the folder `assets` itself
        names = "assets_path names the folder that holds the folder assets"
        if root.name == "assets":
            return f"{names}: {root.parent}"
        return f"{names}: ln -s {shlex.quote(str(root.absolute()))} DIR/assets, assets_path=DIR"
    if root != folder and (folder / EMBODIMENTS).is_dir():
        return f"there are some in {folder}: leave assets_path and ASSETS_PATH out"
    download = f"(cd {shlex.quote(str(folder))} && {DOWNLOAD})"
    if root == folder:
        return download
    return f"{download} gets them; they are found there without assets_path and ASSETS_PATH"


def _missing(
    config: RoboTwinConfig, folder: Path, root: Path, tasks: Iterable[str]
) -> Iterator[str]:
    robots = dict.fromkeys(name for name in config.task_config.embodiment if isinstance(name, str))
    files = [*(f"{EMBODIMENTS}/{name}/config.yml" for name in robots), *CLUTTER]
    yield from (file for file in files if not (root / file).is_file())
    folders = [f"{OBJECTS}/{name}" for task in tasks for name in _objects(folder, task)]
    if randomization(config)["random_background"]:
        folders.append(TEXTURES)
    yield from (name for name in dict.fromkeys(folders) if not _holds_anything(root / name))


def _objects(folder: Path, task: str) -> list[str]:
    """Return the objects that are named in a task's source file."""
    try:
        text = (folder / "envs" / f"{task}.py").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return []
    return re.findall(r'"(\d{3}_[\w-]+)"', text)


def _holds_anything(folder: Path) -> bool:
    return folder.is_dir() and any(folder.iterdir())
