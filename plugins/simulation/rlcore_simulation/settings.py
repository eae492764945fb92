"""Keys of every env on :mod:`rlcore_simulation`. Light."""

from __future__ import annotations

from dataclasses import dataclass

from rlcore.config.schema import Door, EnvConfig, key


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
    python: str | None = key(
        "interpreter in whose environment the simulators run, as a path or a name, or the folder "
        "of its virtual environment (rlcore venv create makes one); null: the one that rlcore "
        "runs in",
        place="program",
        door=Door("runs its simulators with", (None,), known="rlcore.noted:known"),
    )

    def interpreter(self) -> str | None:
        return self.python
