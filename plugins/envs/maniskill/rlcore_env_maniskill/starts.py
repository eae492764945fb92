"""(task, trial) -> what ManiSkill's `reset` must be told."""

from __future__ import annotations

from typing import Any

from mani_skill.envs.sapien_env import BaseEnv

from rlcore.rollout.rng import generator
from rlcore_env_maniskill.tasks import PUT_ON_PLATE, task_of


def start_of(env: BaseEnv, task: str, trial: int) -> tuple[int, dict[str, Any]]:
    """Seed and options of the start of a trial."""
    options = {}
    if task_of(task) is PUT_ON_PLATE:  # an episode of it is one number
        options["episode_id"] = env.episodes.id_of_trial(trial)
    return int(generator("maniskill start", task, trial).integers(2**31)), options
