"""Define the keys common to every env on MuJoCo. Light: imports no simulator."""

from __future__ import annotations

from dataclasses import dataclass

from rlcore_simulation.detail import DETAILS, EXACT
from rlcore_simulation.settings import SimulatedEnvConfig

from rlcore.config.schema import key


@dataclass
class MujocoEnvConfig(SimulatedEnvConfig):
    """Settings of an env whose simulators run on MuJoCo; a plugin's dataclass adds its own."""

    render_detail: str = key(
        "geometry of frames: exact, as the scene has it; pixel, as much as the pixels can show: "
        "faster, and other pixels here and there; in the manifest",
        EXACT,
        choices=DETAILS,
    )
