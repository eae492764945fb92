"""Files of the model that training began with, which our checkpoints keep: with them its own
classes load what we save. No torch.

Kept are its code, the settings of its tokenizer and processor, and what its config.json says
besides what we write there. Nothing is copied through a link that leads out of its folder, as in a
cache of downloads.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from rlcore.files.damaged_files import read_mapping
from rlcore.files.symlinks import leaves_folder
from rlcore_prismatic.config_files import PREPROCESSOR_FILE, RLCORE
from rlcore_prismatic.folders import Folders
from rlcore_prismatic.statistics import CONFIG_FILE

CODE = "*_prismatic.py"
_KEPT = (
    CODE, PREPROCESSOR_FILE, "processor_config.json", "tokenizer_config.json", "tokenizer.model",
    "special_tokens_map.json", "added_tokens.json", "generation_config.json",
)  # fmt: skip
_AUTO_MAP = "auto_map"


def keep_files(folders: Folders, target: Path) -> None:
    """Copy what is kept of a checkpoint's folders into another one; its own files come first."""
    for place in reversed(folders.places):
        for pattern in _KEPT:
            for file in place.glob(pattern):
                if file.is_file() and not leaves_folder(place, file):
                    shutil.copyfile(file, target / file.name)


def kept_config(folders: Folders, target: Path) -> dict[str, Any]:
    """What is kept of a checkpoint's config.json: all but our part, and of the classes that it
    names those whose code is in `target`, or on the hub."""
    path = folders.find(CONFIG_FILE)
    if not path.is_file():
        return {}
    content = read_mapping(path)
    content.pop(RLCORE, None)
    named = content.pop(_AUTO_MAP, None)
    if isinstance(named, dict):
        found = {
            kind: name
            for kind, name in named.items()
            if isinstance(name, str)
            and ("--" in name or (target / f"{name.partition('.')[0]}.py").is_file())
        }
        content |= {_AUTO_MAP: found} if found else {}
    return content
