"""Keys of every env on :mod:`rlcore_simulation`. Light."""

from __future__ import annotations

from dataclasses import dataclass

from rlcore.config.schema import EnvConfig, key


@dataclass
class SimulatedEnvConfig(EnvConfig):
    """Settings of an env whose simulators run on the CPU; a plugin's dataclass adds its own."""

    render_final: bool = key(
        "render the last frame of an episode cut off by the time limit; needed to bootstrap "
        "its value",
        True,
    )
    simulator_timeout: float = key(
        "seconds a simulator process may take for one command before it counts as hung",
        120.0,
        above=0,
    )
