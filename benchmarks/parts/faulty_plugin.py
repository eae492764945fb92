"""What the fault table adds to rlcore: PPO with a loss that fails on command. Strings only."""

from __future__ import annotations

from dataclasses import dataclass

from rlcore_algo_ppo.settings import PPOConfig

from rlcore.config.schema import key
from rlcore.contracts.hookspecs import hookimpl
from rlcore.contracts.specs import ComponentSpec

RLCORE_API = (0, 1)


@dataclass
class FaultyConfig(PPOConfig):
    """PPO's."""

    name: str = key("registered name of the algorithm", "faulty")


@hookimpl
def rlcore_components() -> list[ComponentSpec]:
    """`algorithm=faulty`."""
    return [
        ComponentSpec(
            kind="algorithm",
            name="faulty",
            target="parts.faulty:Faulty",
            summary="PPO with a loss that fails on command",
            config="parts.faulty_plugin:FaultyConfig",
            spec="rlcore_algo_ppo.settings:needs",
        )
    ]
