"""Say which algorithm acts together with a saved policy. Light.

FOLDER/acting/networks.safetensors   its networks, beside what the policy's model has written
FOLDER/acting/algorithm.json         its name
"""

from __future__ import annotations

import json
from pathlib import Path

from rlcore.files.damaged_files import blaming, read_mapping

PLACE = "acting"
NETWORKS = f"{PLACE}/networks.safetensors"
_FACTS = f"{PLACE}/algorithm.json"


def write_algorithm(folder: Path, name: str) -> None:
    """Say that an algorithm acts together with the policy in a folder."""
    (folder / PLACE).mkdir(exist_ok=True)
    (folder / _FACTS).write_text(json.dumps({"algorithm": name}) + "\n", encoding="utf-8")


def saved_with(folder: Path) -> str | None:
    """The algorithm that acts together with the policy in a folder; None: the policy acts alone.

    Raises:
        CheckpointError: the file is damaged.
    """
    path = folder / _FACTS
    if not path.exists():
        return None
    with blaming(path):
        return str(read_mapping(path)["algorithm"])
