"""Settings the LIBERO tests share. Small frames without shadows: a test is quick."""

from __future__ import annotations

from collections.abc import Callable
from importlib import util

import pytest
from rlcore_env_libero.assets import assets_folder, missing_files
from rlcore_env_libero.settings import LiberoConfig
from rlcore_env_libero.suites import ALL, SUITES
from rlcore_simulation.env import SimulatedEnv

from rlcore.contracts.errors import AssetError

SOUP = "pick_up_the_alphabet_soup_and_place_it_in_the_basket"
MILK = "pick_up_the_milk_and_place_it_in_the_basket"
DRAWER = "open_the_middle_drawer_of_the_cabinet"
STOVE = "turn_on_the_stove"

EnvMaker = Callable[..., SimulatedEnv]

needs_libero = pytest.mark.skipif(
    util.find_spec("libero") is None, reason="LIBERO is not installed (rlcore install-libero)"
)


def assets_are_here() -> bool:
    try:
        return not missing_files(assets_folder(None), SUITES[ALL])
    except AssetError:  # nor LIBERO
        return False


needs_assets = pytest.mark.skipif(
    not assets_are_here(), reason="no assets of LIBERO, or not all (rlcore install-libero)"
)


def small_config(**settings: object) -> LiberoConfig:
    base = {
        "suite": "libero_object",
        "tasks": [SOUP],
        "stand_ins": True,
        "image_size": 32,
        "fast_render": True,
        "settle_steps": 2,
        "max_episode_steps": 40,
    }
    return LiberoConfig(**(base | settings))  # type: ignore[arg-type]
