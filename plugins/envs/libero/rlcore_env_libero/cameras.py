"""The cameras of LIBERO, and how their frames are turned. Light."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlcore_mujoco.view import Camera, View

if TYPE_CHECKING:
    from rlcore_env_libero.settings import LiberoConfig

# By the name that policies see: the camera's name in LIBERO.
CAMERAS = {"agentview": "agentview", "wrist": "robot0_eye_in_hand"}
COLLISION_GEOMS = 0  # their group; robosuite does not show them


def view_of(config: LiberoConfig) -> View:
    """What robosuite draws; `fast_render`: without shadows, reflections and antialiasing.

    robosuite gives frames upside down, and openpi, OpenVLA-OFT and their data sets turn them by 180
    degrees. So what checkpoints have learned from is upright and mirrored.
    """
    size = config.image_size
    return View(
        {name: Camera(CAMERAS[name], size, size, flip_columns=True) for name in config.cameras},
        fast=config.fast_render,
        reflection=not config.fast_render,
        hidden_groups=(COLLISION_GEOMS,),
        detail=config.render_detail,
    )
