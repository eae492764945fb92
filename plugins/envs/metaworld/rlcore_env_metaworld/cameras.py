"""The cameras of MetaWorld's scene, and which frames must be turned upright. Light."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CameraMount:
    """A camera of the scene.

    Attributes:
        name: its name in MetaWorld's XML.
        rotated: whether it is mounted upside down, so that frames are rotated by 180 degrees.
        position: where we move it (metres), or None to leave it where the scene has it.
    """

    name: str
    rotated: bool = False
    position: tuple[float, float, float] | None = None


CAMERAS: dict[str, CameraMount] = {
    # corner2 moved closer: the view in which results on MT50 and ML45 are published.
    "corner2_published": CameraMount("corner2", rotated=True, position=(0.75, 0.075, 0.7)),
    "topview": CameraMount("topview"),
    "corner": CameraMount("corner", rotated=True),
    "corner2": CameraMount("corner2", rotated=True),
    "corner3": CameraMount("corner3", rotated=True),
    "corner4": CameraMount("corner4", rotated=True),
    "behindGripper": CameraMount("behindGripper"),
    "gripperPOV": CameraMount("gripperPOV"),
}
NEW_CAMERA = "corner4"  # MetaWorld has it since 3.1
