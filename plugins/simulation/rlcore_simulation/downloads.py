"""Check files of data sets, and build the command that downloads one. Light to import."""

from __future__ import annotations

import shlex
from pathlib import Path

from rlcore.files import hub

TRY_OUT = "(or env.train.stand_ins=true env.eval.stand_ins=true to try things out)"
"""Text after the command that downloads an env's assets."""
# First bytes of a file that Git LFS has not downloaded yet. rlcore.files.reading has the same
# constant, but imports yaml, which a simulator's interpreter may lack.
POINTER = b"version https://git-lfs"


def is_whole(path: Path) -> bool:
    """Check that a file exists, is readable and not empty, and is not a pointer of Git LFS."""
    try:
        with open(path, "rb") as file:
            return file.read(len(POINTER)) not in (b"", POINTER)
    except OSError:
        return False


def download_command(data_set: str, folder: Path) -> str:
    """Return the command that downloads a data set into a folder.

    If the folder is in the hub's cache, the command names no folder, because that is the default.
    """
    command = f"hf download --repo-type dataset {data_set}"
    if folder.is_relative_to(hub.cache()):
        return command
    return f"{command} --local-dir {shlex.quote(str(folder))}"
