"""RoboTwin's repository and assets on this machine: where they are, and what is missing. Light.

RoboTwin answers a missing file by trying the next seed, for ever. So we look before a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from rlcore.errors import AssetError
from rlcore_env_robotwin.arguments import randomization
from rlcore_env_robotwin.settings import RoboTwinConfig
from rlcore_env_robotwin.tasks import BOXES

BRANCH = "RLinf_support"
CLONE = f"git clone https://github.com/RoboTwin-Platform/RoboTwin.git -b {BRANCH}"
# By these we know the repository, and the branch with a reward for each task.
OF_THE_REPOSITORY = ("envs/_base_task.py", "task_config/_embodiment_config.yml")
OF_THE_BRANCH = "robotwin/envs/vector_env.py"
# Where its file of robots says each is, where we know it without reading that.
EMBODIMENTS, OBJECTS, TEXTURES = (
    "assets/embodiments",
    "assets/objects",
    "assets/background_texture",
)


def repository(config: RoboTwinConfig) -> Path:
    """RoboTwin's repository.

    Raises:
        AssetError: no path is set, or it is not RoboTwin's repository on the branch for
            reinforcement learning.
    """
    if config.robotwin_path is None:
        raise AssetError(
            "RoboTwin's repository is needed: robotwin_path is not set, nor is ROBOTWIN_PATH",
            hint=f"{CLONE} && export ROBOTWIN_PATH=$PWD/RoboTwin  (or stand_ins=true)",
        )
    folder = Path(config.robotwin_path)
    lacking = [name for name in OF_THE_REPOSITORY if not (folder / name).is_file()]
    if lacking:
        raise AssetError(
            f"robotwin_path: {folder} is not RoboTwin's repository: it has no {lacking[0]}",
            hint=f"{CLONE} && export ROBOTWIN_PATH=$PWD/RoboTwin",
        )
    if not (folder / OF_THE_BRANCH).is_file():
        raise AssetError(
            f"robotwin_path: {folder} is RoboTwin, but not its branch {BRANCH}, which has the "
            "rewards",
            hint=f"git -C {folder} fetch origin {BRANCH} && git -C {folder} checkout {BRANCH}",
        )
    return folder


def assets_root(config: RoboTwinConfig) -> Path:
    """The folder that holds the folder `assets`."""
    return Path(config.assets_path or repository(config))


def require_assets(config: RoboTwinConfig, tasks: Iterable[str]) -> None:
    """Check that repository and assets of these tasks are there.

    Raises:
        AssetError: names what is missing and the command that gets it.
    """
    folder, root = repository(config), assets_root(config)
    missing = list(_missing(config, root, tasks))
    if missing:
        raise AssetError(
            f"RoboTwin's assets: missing or empty in {root}: {', '.join(missing)}",
            hint=f"cd {folder} && bash script/_download_assets.sh  (or stand_ins=true)",
        )


def _missing(config: RoboTwinConfig, root: Path, tasks: Iterable[str]) -> Iterator[str]:
    robots = dict.fromkeys(name for name in config.task_config.embodiment if isinstance(name, str))
    for name in robots:
        if not (root / EMBODIMENTS / name / "config.yml").is_file():
            yield f"{EMBODIMENTS}/{name}/config.yml"
    random = randomization(config)
    if random["random_background"] and not _holds_anything(root / TEXTURES):
        yield TEXTURES
    boxes_only = set(tasks) <= set(BOXES) and not random["cluttered_table"]
    if not boxes_only and not _holds_anything(root / OBJECTS):
        yield OBJECTS


def _holds_anything(folder: Path) -> bool:
    return folder.is_dir() and any(folder.iterdir())
