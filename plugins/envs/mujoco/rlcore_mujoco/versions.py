"""Versions of MuJoCo with which the results of envs were tested.

The range is defined only here: plugins list it in their `ComponentSpec`, and a test compares it
with every `pyproject.toml` that requires MuJoCo. This module imports no simulator.
"""

from __future__ import annotations

from rlcore.contracts.component import SimulatorVersions

MUJOCO = SimulatorVersions(
    "mujoco",
    ">=3.2.7,<=3.3.2",
    "from 3.3.3 on floors are drawn darker, and from 3.4.0 on boxes touch otherwise, so that the "
    "bowl of LIBERO-Spatial's task 5 slides from its ramekin's middle to the rim (success of a "
    "published policy: 98% -> 12%)",
)
