"""Models by their names on a hub, ORG/NAME: where they are here. Light; downloads nothing."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*")


def is_name(value: str) -> bool:
    """Whether it has the form of a name; a path of two words has it too."""
    return _NAME.fullmatch(value) is not None


def find(name: str) -> Path | None:
    """The folder of a model: in the working folder under its name, or under the second word of it,
    where `git clone` and the documented `hf download --local-dir` put it; else in the cache."""
    places = (Path(name), Path(own_folder(name)))
    here = next((place.absolute() for place in places if place.is_dir()), None)
    return here or cached(name)


def own_folder(name: str) -> str:
    """What documents call the folder that they download a model into."""
    return name.partition("/")[2]


def cached(name: str, revision: str | None = None) -> Path | None:
    """The snapshot of a model in the cache of Hugging Face's hub, where `hf download` without
    `--local-dir` puts it: of a revision, or the one downloaded last."""
    if not is_name(name) or find_spec("huggingface_hub") is None:
        return None
    from huggingface_hub import constants

    if not Path(constants.HF_HUB_CACHE, f"models--{name.replace('/', '--')}").is_dir():
        return None
    from huggingface_hub import snapshot_download  # takes a while to import
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, revision=revision, local_files_only=True))
    except LocalEntryNotFoundError:
        return None
