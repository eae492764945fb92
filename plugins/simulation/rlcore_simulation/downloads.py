"""Data sets of the Hugging Face hub on this machine, found without huggingface_hub. Light."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

TRY_OUT = "(or env.train.stand_ins=true env.eval.stand_ins=true to try things out)"
"""Behind the command that brings an env's assets."""
POINTER = b"version https://git-lfs"  # how a file begins that Git LFS has not downloaded yet


def is_whole(path: Path) -> bool:
    """Whether it is a file with content of its own: no pointer of Git LFS, not empty, and one that
    this user may read."""
    try:
        with open(path, "rb") as file:
            return file.read(len(POINTER)) not in (b"", POINTER)
    except OSError:
        return False


def snapshots(data_set: str) -> Iterator[Path]:
    """A data set in the hub's own cache, newest first."""
    folder = hub_cache() / f"datasets--{data_set.replace('/', '--')}" / "snapshots"
    if os.access(folder, os.R_OK | os.X_OK):
        yield from sorted(folder.iterdir(), key=lambda one: (-one.stat().st_mtime, one.name))


def hub_cache() -> Path:
    """Where huggingface_hub keeps what it downloads."""
    own = os.environ.get
    caches = Path(own("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = Path(own("HF_HOME") or caches / "huggingface")
    cache = own("HF_HUB_CACHE") or own("HUGGINGFACE_HUB_CACHE") or home / "hub"
    return Path(os.path.expandvars(cache)).expanduser()


def download_command(data_set: str, folder: Path) -> str:
    """The command that downloads a data set into a folder; the hub fills its own cache."""
    command = f"hf download --repo-type dataset {data_set}"
    if folder.is_relative_to(hub_cache()):
        return command
    return f"{command} --local-dir {shlex.quote(str(folder))}"
