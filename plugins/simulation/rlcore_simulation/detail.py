"""Define the levels of geometric detail at which frames are rendered. Light to import.

An env that renders less detail than the scene has declares it in `render_settings` of its spec. Its
policy sees the reduced detail; videos show full detail.
"""

from __future__ import annotations

import numpy as np

from rlcore.contracts.specs import EnvSpec

SETTING = "render_detail"
EXACT = "exact"
PIXEL = "pixel"
DETAILS = (EXACT, PIXEL)


class FilmFrames(dict[str, np.ndarray]):
    """Frames of a video, by camera, which must be rendered in full detail.

    :meth:`rlcore_simulation.simulator.Simulator.draw` gets this type, with only the cameras that
    the video shows, if the spec of the env declares reduced detail.
    """


def films_apart(spec: EnvSpec) -> bool:
    """Check whether videos need separate frames, because policies see reduced detail."""
    return spec.render_settings.get(SETTING, EXACT) != EXACT
