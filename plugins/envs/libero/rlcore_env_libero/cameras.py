"""The cameras of LIBERO, and how their frames are turned. Light."""

from __future__ import annotations

# By the name that policies see: the camera's name in LIBERO.
CAMERAS = {"agentview": "agentview", "wrist": "robot0_eye_in_hand"}
COLLISION_GEOMS = 0  # their group; robosuite does not show them
