"""Describe what determines the pixels: cameras, sizes, quality. Imports no simulator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rlcore_simulation.detail import EXACT, SETTING


@dataclass(frozen=True)
class Camera:
    """A camera of the model, and the format of its frames.

    Attributes:
        name: name of the camera in the model.
        height: height of the frame, in pixels.
        width: width of the frame, in pixels.
        flip_rows: whether the frame is flipped upside down.
        flip_columns: whether the frame is flipped left to right. Both flips together rotate it by
            180 degrees, which makes the frames of an upside-down camera upright.
    """

    name: str
    height: int
    width: int
    flip_rows: bool = False
    flip_columns: bool = False


@dataclass(frozen=True)
class View:
    """Cameras of an env, and the quality of their frames.

    Attributes:
        cameras: cameras by the env's names of them.
        fast: whether to render without shadows and antialiasing. Pixels differ, and rendering takes
            a fraction of the time.
        reflection: whether reflecting materials get an additional render pass. In a scene without
            such materials, pixels are the same without it, in two thirds of the time.
        hidden_groups: geom groups that are not drawn, 0 to 5.
        detail: one of :data:`rlcore_simulation.detail.DETAILS`.
    """

    cameras: Mapping[str, Camera]
    fast: bool = False
    reflection: bool = False
    hidden_groups: tuple[int, ...] = ()
    detail: str = EXACT

    @property
    def quality(self) -> dict[str, bool | str]:
        """Entries of `EnvSpec.render_settings` about the quality, by rlcore's names."""
        return {
            "fast_render": self.fast,
            "shadows": not self.fast,
            "antialiasing": not self.fast,
            "reflection": self.reflection,
            SETTING: self.detail,
        }
