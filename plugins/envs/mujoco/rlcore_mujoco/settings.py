"""Define the keys common to every env on MuJoCo. Light: imports no simulator."""

from __future__ import annotations

from dataclasses import dataclass

from rlcore_simulation.settings import SimulatedEnvConfig, render_detail_key


@dataclass
class MujocoEnvConfig(SimulatedEnvConfig):
    """Settings of an env whose simulators run on MuJoCo; a plugin's dataclass adds its own."""

    render_detail: str = render_detail_key()
