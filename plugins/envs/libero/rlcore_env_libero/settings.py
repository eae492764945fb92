"""Define the settings of a LIBERO env. Imports no simulator."""

from __future__ import annotations

from dataclasses import dataclass

from rlcore_mujoco.settings import MujocoEnvConfig

from rlcore.config.schema import When, key
from rlcore_env_libero.cameras import CAMERAS
from rlcore_env_libero.suites import STEPS, SUITES


@dataclass
class LiberoConfig(MujocoEnvConfig):
    """LIBERO; `tasks` selects tasks of the suite by name."""

    env_type: str = key("registered name of the env", "libero")
    suite: str = key("task suite", "libero_10", choices=tuple(SUITES))
    max_episode_steps: int = key(
        "time limit in env steps; published: "
        + ", ".join(f"{suite} {steps}" for suite, steps in STEPS.items()),
        STEPS["libero_10"],
        minimum=1,
    )
    starts: str = key(
        "split: 35 of a task's 50 init states for training, 5 for validation, 10 held out; all: "
        "all 50 belong to split=train, on which published results are trained and evaluated",
        "split",
        choices=("split", "all"),
    )
    settle_steps: int = key(
        "steps without motion after a reset, not counted in the episode; openpi and OpenVLA-OFT "
        "wait 10, RLinf 15",
        10,
        minimum=0,
    )
    reset_gripper_open: bool = key("whether the gripper opens meanwhile", True)
    gripper: str = key(
        "signed: +1 closes, -1 opens, as in openpi's data; binary: a number in [0, 1], above 0.5 "
        "opens, as in OpenVLA's",
        "signed",
        choices=("signed", "binary"),
    )
    cameras: list[str] = key("cameras in the order in which policies take them", list(CAMERAS))
    image_size: int = key(
        "height and width of frames in pixels; published: 256", 256, minimum=1, magnitude_limit=4096
    )
    fast_render: bool = key(
        "no shadows, reflections and antialiasing: faster, but other pixels; in the manifest",
        False,
    )
    stand_ins: bool = key(
        "primitive shapes in place of LIBERO's objects and scenes: needs no assets, and its "
        "figures are not LIBERO's",
        False,
    )
    assets_path: str | None = key(
        "folder of LIBERO's assets; null: where LIBERO, the hub or pip keep them",
        place="path",
        when=When("stand_ins", (False,)),
    )
    cached_tasks: int = key(
        "compiled tasks that a process keeps for the next episode while no row plays them (0.1 GB "
        "each with stand-ins, near 1 GB with LIBERO's assets; a task takes seconds to compile)",
        10,
        minimum=0,
    )
