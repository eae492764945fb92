"""Build one env of a run in this process, with the checks and restarts of an env worker."""

from __future__ import annotations

import os
from functools import partial

from rlcore.checks.facts import env_spec
from rlcore.config.schema import RunConfig
from rlcore.contracts.specs import EnvSpec
from rlcore.plugins.registry import load_plugins
from rlcore.workers.checked_env import CheckedEnv
from rlcore.workers.env_worker import build_env
from rlcore.workers.restarting_env import RestartingEnv


def build_checked_env(config: RunConfig, side: str, num_envs: int) -> tuple[CheckedEnv, EnvSpec]:
    """Build the env of a side, "train" or "eval", with `num_envs` rows; return it and its spec.

    Raises:
        UserError: the env can't be built.
    """
    settings = config.env.sides[side]
    registry = load_plugins()
    target = registry.usable("env", settings.env_type).spec.target
    spec = env_spec(registry, f"env.{side}", settings)
    processes = settings.num_processes
    if processes is None:
        processes = min(num_envs, os.cpu_count() or 1)
    make = partial(
        build_env,
        target,
        settings,
        num_envs=num_envs,
        rank=0,
        world_size=1,
        num_processes=processes,
    )
    env = RestartingEnv(make, config.cluster.simulator_restarts)
    return CheckedEnv(env, num_envs=num_envs, spec=spec, instructions=settings.sentences), spec
