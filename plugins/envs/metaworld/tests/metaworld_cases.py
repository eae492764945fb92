"""Settings the MetaWorld tests share. Small frames without shadows: a test is quick."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version

import pytest
from rlcore_env_metaworld import cameras, spec
from rlcore_env_metaworld.cameras import NEW_CAMERA
from rlcore_env_metaworld.settings import MetaWorldConfig
from rlcore_mujoco.view import View
from rlcore_simulation.env import SimulatedEnv

BUTTON, DRAWER, REACH = "button-press-topdown-v3", "drawer-close-v3", "reach-v3"
CAMERA = "corner2_published"

needs_new_camera = pytest.mark.skipif(
    version("metaworld").startswith("3.0."), reason=f"MetaWorld 3.0 has no camera {NEW_CAMERA}"
)
CAMERAS = [
    pytest.param(name, marks=needs_new_camera if name == NEW_CAMERA else ())
    for name in sorted(cameras.CAMERAS)
]

EnvMaker = Callable[..., SimulatedEnv]


def view_of(camera: str, size: int, *, fast: bool = False, reflection: bool = False) -> View:
    """What an env draws, and on demand what the walls of the table reflect."""
    config = MetaWorldConfig(camera=camera, image_size=size, fast_render=fast)
    return replace(spec.view_of(config), reflection=reflection)


def small_config(**settings: object) -> MetaWorldConfig:
    base = {"tasks": [BUTTON], "image_size": 32, "fast_render": True, "max_episode_steps": 100}
    return MetaWorldConfig(**(base | settings))  # type: ignore[arg-type]
