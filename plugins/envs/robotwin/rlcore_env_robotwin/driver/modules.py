"""Import RoboTwin's code into this process, and complete settings as its VectorEnv does."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rlcore.contracts.errors import AssetError, ConfigError
from rlcore_env_robotwin.arguments import Arguments
from rlcore_env_robotwin.driver import patches

JOINTS = 6


def load(repository: Path, assets: Path, *, ray_tracing: bool) -> None:
    """Make RoboTwin's packages importable, and set the environment variable of its assets folder.

    Raises:
        AssetError: SAPIEN or mplib is missing.
    """
    os.environ["ASSETS_PATH"] = str(assets)
    if str(repository) not in sys.path:
        sys.path.insert(0, str(repository))
    try:
        patches.apply(ray_tracing=ray_tracing)
    except ImportError as error:
        raise AssetError(
            f"RoboTwin's simulators need {error.name}, which {sys.executable} lacks",
            hint="rlcore venv create robotwin",
        ) from None


def new_task(name: str) -> Any:
    """Return a new instance of RoboTwin's class of a task.

    Raises:
        AssetError: RoboTwin imports a package that is not installed.
    """
    try:
        # RoboTwin prints warnings about packages that are not needed here
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            module = importlib.import_module(f"envs.{name}")
    except ModuleNotFoundError as error:
        raise AssetError(
            f"RoboTwin imports {error.name}, which {sys.executable} lacks",
            hint=f"{sys.executable} -m pip install {error.name}",
        ) from None
    return vars(module)[name]()


def completed(own: Arguments, repository: Path, assets: Path) -> Arguments:
    """Return the arguments of a task's `setup_demo`: settings with the robot's files and cameras.

    Raises:
        AssetError: a configuration file can't be read.
        ConfigError: RoboTwin does not know the robot, or its arms do not have six joints.
    """
    configs = repository / "task_config"
    robots, cameras = (_yaml(configs / f"_{kind}_config.yml") for kind in ("embodiment", "camera"))
    names = own["embodiment"]
    pair = len(names) == 3
    for name in names[:2] if pair else names:
        if name not in robots:
            raise ConfigError(
                f"task_config.embodiment: RoboTwin knows no robot {name!r}; choose from: "
                f"{', '.join(robots)}"
            )
    folders = [os.path.join(assets, robots[name]["file_path"]) for name in names[:2]][: 1 + pair]
    left = folders[0]
    right = folders[-1]
    files = [_yaml(Path(folder, "config.yml")) for folder in (left, right)]
    for side, file in enumerate(files):
        joints = file["arm_joints_name"][side]
        if len(joints) != JOINTS:
            raise ConfigError(
                f"task_config.embodiment: the arms of {names[side if pair else 0]} have "
                f"{len(joints)} joints, and RoboTwin's policies are for arms of {JOINTS}"
            )
    head = cameras[own["camera"]["head_camera_type"]]
    arguments = own | {
        "left_robot_file": left,
        "right_robot_file": right,
        "left_embodiment_config": files[0],
        "right_embodiment_config": files[1],
        "dual_arm_embodied": not pair,
        "embodiment_name": "_".join(names[:2]) if pair else names[0],
        "head_camera_h": head["h"],
        "head_camera_w": head["w"],
        "eval_mode": True,
        "eval_video_log": False,
    }
    return arguments | ({"embodiment_dis": names[2]} if pair else {})


def instructions() -> Callable[..., list[dict[str, Any]]]:
    """Return RoboTwin's function that writes instructions for the objects of an episode."""
    module = importlib.import_module("description.utils.generate_episode_instructions")
    generate: Callable[..., list[dict[str, Any]]] = module.generate_episode_descriptions
    return generate


def _yaml(file: Path) -> Any:
    import yaml  # type: ignore[import-untyped]

    try:
        return yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise AssetError(f"{file} can't be read: {error}") from None
