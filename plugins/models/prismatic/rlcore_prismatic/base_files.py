"""Copy files of the model that training started from into our checkpoints. No torch.

With them, the classes of the original code load our checkpoints. These files are its code, the
settings of its tokenizer and processor, and the entries of its config.json that we do not write.
No file is copied through a symbolic link that leads out of its folder, as in a download cache.
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
_PATTERNS = (
    CODE,
    PREPROCESSOR_FILE,
    "processor_config.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "generation_config.json",
)
_AUTO_MAP = "auto_map"


def copy_base_files(folders: Folders, target: Path) -> None:
    """Copy these files from the checkpoint's folders to `target`.

    A file of the checkpoint's own folder is preferred to one of the network's folder.
    """
    # the own folder comes last, so that it overwrites
    for place in reversed(folders.places):
        for pattern in _PATTERNS:
            for file in place.glob(pattern):
                if file.is_file() and not leaves_folder(place, file):
                    shutil.copyfile(file, target / file.name)


def base_config(folders: Folders, target: Path) -> dict[str, Any]:
    """Return the entries of a checkpoint's config.json that a new checkpoint takes over.

    Our own entry is left out, and so are classes whose code is neither in `target` nor on the hub.
    """
    path = folders.find(CONFIG_FILE)
    if not path.is_file():
        return {}
    content = read_mapping(path)
    content.pop(RLCORE, None)
    classes = content.pop(_AUTO_MAP, None)
    if isinstance(classes, dict):
        available = {kind: name for kind, name in classes.items() if _has_code(name, target)}
        content |= {_AUTO_MAP: available} if available else {}
    return content


def _has_code(name: Any, folder: Path) -> bool:
    """Return whether the code of a class, such as `modeling_prismatic.Model`, can be found.

    A name with "--" in it refers to a repository on the hub.
    """
    if not isinstance(name, str):
        return False
    return "--" in name or (folder / f"{name.partition('.')[0]}.py").is_file()
