"""How much geometry frames are made of. Light.

An env that offers less than the scene has says so in its spec, in `render_settings`. Its policy
sees that; films show the scene as it is.
"""

from __future__ import annotations

import numpy as np

from rlcore.contracts.specs import EnvSpec

SETTING = "render_detail"
EXACT, PIXEL = DETAILS = ("exact", "pixel")


class FilmFrames(dict[str, np.ndarray]):
    """What :meth:`rlcore_simulation.simulator.Simulator.draw` gets for a film: frames of the
    cameras that it shows, to be drawn exactly. Others are not asked for. Only simulators of an env
    whose spec says another detail get it."""


def films_apart(spec: EnvSpec) -> bool:
    """Whether films show more than policies see, and so need frames of their own."""
    return spec.render_settings.get(SETTING, EXACT) != EXACT
