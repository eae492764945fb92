"""What changes pixels: cameras, sizes, quality. Light: imports no simulator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rlcore_simulation.detail import EXACT, SETTING


@dataclass(frozen=True)
class Camera:
    """A camera of the model, and the frame that is made of what it sees.

    Attributes:
        name: its name in the model.
        height: of the frame, in pixels.
        width: of the frame, in pixels.
        flip_rows: whether the frame is turned top to bottom.
        flip_columns: whether the frame is turned left to right. Both flips together turn it by
            180 degrees, which puts upright what a camera sees that hangs upside down.
    """

    name: str
    height: int
    width: int
    flip_rows: bool = False
    flip_columns: bool = False


@dataclass(frozen=True)
class View:
    """What the frames of an env show.

    Attributes:
        cameras: by the env's names of them.
        fast: without shadows and antialiasing; other pixels, in a fraction of the time.
        reflection: whether reflecting materials are drawn with a pass of their own. A scene that
            has none gets the same pixels without it, in two thirds of the time.
        hidden_groups: groups of geoms that are not drawn, 0 to 5.
        detail: one of :data:`rlcore_simulation.detail.DETAILS`.
    """

    cameras: Mapping[str, Camera]
    fast: bool = False
    reflection: bool = False
    hidden_groups: tuple[int, ...] = ()
    detail: str = EXACT

    @property
    def quality(self) -> dict[str, bool | str]:
        """What `EnvSpec.render_settings` says of it, by our names."""
        return {
            "fast_render": self.fast,
            "shadows": not self.fast,
            "antialiasing": not self.fast,
            "reflection": self.reflection,
            SETTING: self.detail,
        }
