"""The cameras of LIBERO, and how their frames are turned. Light."""

from __future__ import annotations

from collections.abc import Iterable

from rlcore_mujoco.view import Camera, View
from rlcore_simulation.detail import EXACT

# By the name that policies see: the camera's name in LIBERO.
CAMERAS = {"agentview": "agentview", "wrist": "robot0_eye_in_hand"}
COLLISION_GEOMS = 0  # their group; robosuite does not show them


def view_of(cameras: Iterable[str], size: int, *, fast: bool, detail: str = EXACT) -> View:
    """What robosuite draws; `fast`: without shadows, reflections and antialiasing.

    robosuite gives frames upside down, and openpi, OpenVLA-OFT and their data sets turn them by 180
    degrees. So what checkpoints have learned from is upright and mirrored.
    """
    return View(
        {name: Camera(CAMERAS[name], size, size, flip_columns=True) for name in cameras},
        fast=fast,
        reflection=not fast,
        hidden_groups=(COLLISION_GEOMS,),
        detail=detail,
    )
