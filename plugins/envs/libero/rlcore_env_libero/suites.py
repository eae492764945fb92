"""The suites of LIBERO: their tasks in the benchmark's order, and their sentences. Light.

LIBERO names a task by its sentence with underscores. Those of LIBERO-100, which are LIBERO-90 and
LIBERO-10 (Long), have the scene in front. Published results tell the policy the sentence in the
name, not the one inside the task's file.
"""

from __future__ import annotations

import json
import re
from importlib.resources import files

_OWN: dict[str, list[str]] = json.loads(files(__package__).joinpath("suites.json").read_text())
ALL = "libero_130"
SUITES: dict[str, tuple[str, ...]] = {
    **{suite: tuple(tasks) for suite, tasks in _OWN.items()},
    ALL: tuple(task for tasks in _OWN.values() for task in tasks),
}
# The suite whose folder holds a task's files.
FOLDERS = {task: suite for suite, tasks in _OWN.items() for task in tasks}
# Time limits in steps, as openpi and OpenVLA-OFT evaluate; the longest one for all together.
STEPS = {
    "libero_spatial": 220,
    "libero_object": 280,
    "libero_goal": 300,
    "libero_10": 520,
    "libero_90": 400,
    ALL: 520,
}


def sentence(task: str) -> str:
    """What the policy is told: the name without the scene."""
    return re.sub(r"^[A-Z_]*SCENE\d+_", "", task).replace("_", " ")
