"""Define the settings of a MetaWorld env. Imports no simulator."""

from __future__ import annotations

from dataclasses import dataclass

from rlcore_mujoco.settings import MujocoEnvConfig

from rlcore.config.schema import key
from rlcore_env_metaworld.cameras import CAMERAS, WRIST


@dataclass
class MetaWorldConfig(MujocoEnvConfig):
    """MetaWorld; `tasks` selects tasks of the benchmark by name."""

    env_type: str = key("registered name of the env", "metaworld")
    benchmark: str = key(
        "task set: all 50 tasks, the 10 of MT10, the 45 training tasks of ML45, or its 5 held-out "
        "ones",
        "mt50",
        choices=("mt50", "mt10", "ml45_train", "ml45_test"),
    )
    image_size: int = key(
        "height and width of frames in pixels", 480, minimum=1, magnitude_limit=4096
    )
    camera: str = key(
        "camera; corner2_published is the view of the published results",
        "corner2_published",
        choices=tuple(CAMERAS),
    )
    wrist_camera: bool = key(
        f"a second camera, at the wrist ({WRIST}), which policies take after the other: it shows "
        "small objects near the hand several times as large",
        False,
    )
    fast_render: bool = key(
        "no shadows and no antialiasing: 10 to 30 times faster, but other pixels; in the manifest",
        False,
    )
    reward: str = key(
        "sparse: 1 at each step at which the task is solved; dense: MetaWorld's own, 0 to 10",
        "sparse",
        choices=("sparse", "dense"),
    )
    settle_steps: int = key(
        "steps without motion after a reset, not counted in the episode; RLinf's env waits 16",
        15,
        minimum=0,
    )
    cached_simulators: int = key(
        "idle simulators that a process keeps for the next episode of their task (60 MB each)",
        50,
        minimum=0,
    )
