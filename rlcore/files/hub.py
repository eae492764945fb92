"""Find models and data sets of the Hugging Face hub on this machine by name, ORG/NAME. Light;
downloads nothing."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path

_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*")


def is_name(value: str) -> bool:
    """Check whether a text has the form of a name; a path of two words has it too."""
    return _NAME.fullmatch(value) is not None


def find(name: str) -> Path | None:
    """Find the folder of a model: in the working folder under its name, or under the second word of
    it, where `git clone` and the documented `hf download --local-dir` put it; else in the cache."""
    places = (Path(name), Path(own_folder(name)))
    here = next((place.absolute() for place in places if place.is_dir()), None)
    return here or cached(name)


def own_folder(name: str) -> str:
    """Return the folder that documentation downloads a model into."""
    return name.partition("/")[2]


def cache() -> Path:
    """Return huggingface_hub's cache folder; the package need not be installed."""
    own = os.environ.get
    caches = Path(own("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = Path(own("HF_HOME") or caches / "huggingface")
    folder = own("HF_HUB_CACHE") or own("HUGGINGFACE_HUB_CACHE") or home / "hub"
    return Path(os.path.expandvars(folder)).expanduser()


def snapshots(name: str, kind: str = "model") -> list[Path]:
    """List what the cache has of a "model" or "dataset", newest first; a download that was
    interrupted is among them."""
    folder = cache() / f"{kind}s--{name.replace('/', '--')}" / "snapshots"
    if not os.access(folder, os.R_OK | os.X_OK):
        return []
    return sorted(folder.iterdir(), key=lambda one: (-one.stat().st_mtime, one.name))


def cached(name: str, revision: str | None = None) -> Path | None:
    """Find the snapshot of a model in the cache, where `hf download` without `--local-dir` puts it:
    of a revision, or the one downloaded last; None where huggingface_hub does not find it
    complete."""
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
