"""Propose the mapping of a gymnasium env, as lines of YAML for `rlcore new env --from`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import yaml  # type: ignore[import-untyped]

from rlcore_env_gymnasium.derive import fill
from rlcore_env_gymnasium.modules import folder_of
from rlcore_env_gymnasium.settings import GymnasiumConfig
from rlcore_env_gymnasium.spec import camera_sources, env_spec, facts_of, state_parts

UNSOLVED = "return:1"
"""Criterion that is proposed for an env that states none, to be replaced by the user."""


def mapping_of(ident: str) -> str:
    """Return all keys of the mapping as rlcore derives them for this env, as YAML.

    Args:
        ident: id of the env, e.g. "CartPole-v1".

    Raises:
        UserError: gymnasium can't make the env.
    """
    config = GymnasiumConfig(id=ident, module_path=folder_of(ident))
    fill(config)
    facts = facts_of(config)
    success = config.success or UNSOLVED
    spec = env_spec(replace(config, success=success))
    rows: dict[str, Any] = {"kwargs": config.kwargs} if config.kwargs else {}
    rows |= {
        "instruction": spec.instructions[0],
        "cameras": camera_sources(config, facts),
        "states": [part["place"] for part in state_parts(config, facts)],
        "actions": config.actions or {"joint_delta": spec.action_dim},
        "success": success,
        "max_episode_steps": spec.max_episode_steps,
    }
    return yaml.safe_dump(rows, sort_keys=False, default_flow_style=None).rstrip()
