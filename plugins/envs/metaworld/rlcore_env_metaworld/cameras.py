"""List the cameras of MetaWorld's scene and their mounting. Imports no simulator."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CameraMount:
    """A camera of the scene.

    Attributes:
        name: name of the camera in MetaWorld's XML.
        rotated: whether it is mounted upside down, so that its frames are rotated by 180 degrees.
        position: position to which rlcore moves the camera, in metres; None: its position in the
            scene.
    """

    name: str
    rotated: bool = False
    position: tuple[float, float, float] | None = None


CAMERAS: dict[str, CameraMount] = {
    # corner2 moved closer: the view with which results on MT50 and ML45 were published.
    "corner2_published": CameraMount("corner2", rotated=True, position=(0.75, 0.075, 0.7)),
    "topview": CameraMount("topview"),
    "corner": CameraMount("corner", rotated=True),
    "corner2": CameraMount("corner2", rotated=True),
    "corner3": CameraMount("corner3", rotated=True),
    "corner4": CameraMount("corner4", rotated=True),
    "behindGripper": CameraMount("behindGripper"),
    "gripperPOV": CameraMount("gripperPOV"),
}
WRIST = "gripperPOV"
NEW_CAMERA = "corner4"  # new in MetaWorld 3.1
