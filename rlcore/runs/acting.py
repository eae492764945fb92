"""Record which algorithm's networks act together with a saved policy. Imports no heavy library.

FOLDER is the folder into which the policy's model is saved.

FOLDER/acting/networks.safetensors   the algorithm's acting networks
FOLDER/acting/algorithm.json         the algorithm's name
"""

from __future__ import annotations

import json
from pathlib import Path

from rlcore.files.damaged_files import damaged_on, read_mapping

PLACE = "acting"
NETWORKS = f"{PLACE}/networks.safetensors"
_FACTS = f"{PLACE}/algorithm.json"


def write_algorithm(folder: Path, name: str) -> None:
    """Record the name of the algorithm that acts together with the policy in a folder."""
    (folder / PLACE).mkdir(exist_ok=True)
    (folder / _FACTS).write_text(json.dumps({"algorithm": name}) + "\n", encoding="utf-8")


def acting_algorithm(folder: Path) -> str | None:
    """Return the name of the algorithm that acts together with the policy in a folder.

    None if the policy acts alone.

    Raises:
        CheckpointError: the file is damaged.
    """
    path = folder / _FACTS
    if not path.exists():
        return None
    with damaged_on(path):
        return str(read_mapping(path)["algorithm"])
