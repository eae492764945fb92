"""Propose the mapping of a gymnasium env, as lines of YAML for `rlcore new env --from`."""

from __future__ import annotations

from dataclasses import replace

import yaml  # type: ignore[import-untyped]

from rlcore_env_gymnasium.settings import GymnasiumConfig
from rlcore_env_gymnasium.spec import USUAL, camera_sources, env_spec, facts_of, state_parts


def mapping_of(ident: str) -> str:
    """Return all keys of the mapping with their defaults for this env, as YAML.

    The success criterion is the env's usual name in `info`, else its reward threshold as a return.

    Args:
        ident: id of the env, e.g. "CartPole-v1".

    Raises:
        UserError: gymnasium can't make the env.
    """
    config = GymnasiumConfig(id=ident)
    facts = facts_of(config)
    usual = [f"info:{name}" for name in USUAL if name in facts["infos"]]
    success = usual[0] if usual else f"return:{facts['threshold'] or 1:g}"
    spec = env_spec(replace(config, success=success))
    rows = {
        "instruction": spec.instructions[0],
        "cameras": camera_sources(config, facts),
        "states": [part["place"] for part in state_parts(config, facts)],
        "actions": {"joint_delta": spec.action_dim},
        "success": success,
        "max_episode_steps": facts["limit"] or config.max_episode_steps,
    }
    return yaml.safe_dump(rows, sort_keys=False, default_flow_style=None).rstrip()
