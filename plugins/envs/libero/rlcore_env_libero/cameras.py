"""List the cameras of LIBERO. Imports no simulator."""

from __future__ import annotations

# Name of a camera for policies -> its name in LIBERO.
CAMERAS = {"agentview": "agentview", "wrist": "robot0_eye_in_hand"}
COLLISION_GEOMS = 0  # group of the collision geoms, which robosuite does not render
