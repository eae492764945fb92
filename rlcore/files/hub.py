"""Find downloaded models and datasets of the Hugging Face Hub by name, ORG/NAME. Light.

Nothing is downloaded.
"""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path

_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*")


def is_name(value: str) -> bool:
    """Check whether a text has the form ORG/NAME. A relative path of two parts has it too."""
    return _NAME.fullmatch(value) is not None


def find(name: str) -> Path | None:
    """Return the folder of a model; None if it is not on this machine.

    The current directory is searched for ORG/NAME and for NAME, which `git clone` and the
    documented `hf download --local-dir` create; then the cache is searched.
    """
    folders = (Path(name), Path(own_folder(name)))
    local = next((folder.absolute() for folder in folders if folder.is_dir()), None)
    return local or cached(name)


def own_folder(name: str) -> str:
    """Return the folder into which the commands of the documentation download a model."""
    return name.partition("/")[2]


def cache() -> Path:
    """Return the cache folder of huggingface_hub, without importing that package."""
    variable = os.environ.get
    caches = Path(variable("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = Path(variable("HF_HOME") or caches / "huggingface")
    folder = variable("HF_HUB_CACHE") or variable("HUGGINGFACE_HUB_CACHE") or home / "hub"
    return Path(os.path.expandvars(folder)).expanduser()


def snapshots(name: str, kind: str = "model") -> list[Path]:
    """Return the snapshot folders of a model or dataset in the cache, newest first.

    Incomplete downloads are included.

    Args:
        kind: "model" or "dataset".
    """
    folder = cache() / f"{kind}s--{name.replace('/', '--')}" / "snapshots"
    if not os.access(folder, os.R_OK | os.X_OK):
        return []
    return sorted(folder.iterdir(), key=lambda snapshot: (-snapshot.stat().st_mtime, snapshot.name))


def cached(name: str, revision: str | None = None) -> Path | None:
    """Return the snapshot folder of a model in the cache; None if huggingface_hub finds none.

    `hf download` without `--local-dir` downloads into the cache.

    Args:
        revision: branch, tag or commit; None: the default branch.
    """
    if not is_name(name) or not snapshots(name) or find_spec("huggingface_hub") is None:
        return None
    from huggingface_hub import snapshot_download  # takes a while to import
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        return Path(
            snapshot_download(name, revision=revision, cache_dir=cache(), local_files_only=True)
        )
    except LocalEntryNotFoundError:
        return None
