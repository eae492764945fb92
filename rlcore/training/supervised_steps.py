"""Read and write how many supervised steps, of all runs, led to a saved policy."""

from __future__ import annotations

import json
from pathlib import Path

from rlcore.files.atomic import write_text
from rlcore.files.damaged_files import read_mapping

STEPS = "rlcore_supervised.json"
"""Name of the file in the policy's folder."""


def steps_of(policy: Path) -> int:
    """Return the supervised steps, of all runs, that led to a saved policy; 0: it does not say."""
    path = policy / STEPS
    return int(read_mapping(path)["steps"]) if path.is_file() else 0


def write_steps(policy: Path, steps: int) -> None:
    """Write the number that :func:`steps_of` reads."""
    write_text(policy / STEPS, json.dumps({"steps": steps}) + "\n")
