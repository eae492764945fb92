"""(task, trial) -> what ManiSkill's `reset` must be told."""

from __future__ import annotations

from typing import Any

from mani_skill.envs.sapien_env import BaseEnv

from rlcore.rollout.rng import generator


def start_of(env: BaseEnv, task: str, trial: int) -> tuple[int, dict[str, Any]]:
    """Seed and options of the start of a trial."""
    return int(generator("maniskill start", task, trial).integers(2**31)), {}
