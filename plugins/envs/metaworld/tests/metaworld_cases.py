"""Settings the MetaWorld tests share. Small frames without shadows: a test is quick."""

from __future__ import annotations

from collections.abc import Callable

from rlcore_env_metaworld.settings import MetaWorldConfig
from rlcore_simulation.env import SimulatedEnv

BUTTON, DRAWER, REACH = "button-press-topdown-v3", "drawer-close-v3", "reach-v3"
CAMERA = "corner2_published"

EnvMaker = Callable[..., SimulatedEnv]


def small_config(**settings: object) -> MetaWorldConfig:
    base = {"tasks": [BUTTON], "image_size": 32, "fast_render": True, "max_episode_steps": 100}
    return MetaWorldConfig(**(base | settings))  # type: ignore[arg-type]
