"""Settings the ManiSkill tests share. Small frames: a test is quick."""

from __future__ import annotations

from collections.abc import Callable

from rlcore_env_maniskill.settings import ManiSkillConfig
from rlcore_simulation.env import SimulatedEnv

PICK, PUSH = "PickCube-v1", "PushCube-v1"
CAMERA = "third_person"

EnvMaker = Callable[..., SimulatedEnv]


def small_config(**settings: object) -> ManiSkillConfig:
    """On stand-ins, where put-on-plate is played and nobody says otherwise."""
    base = {"tasks": [PUSH], "image_size": 32, "max_episode_steps": 50, "stand_ins": True}
    return ManiSkillConfig(**(base | settings))  # type: ignore[arg-type]
