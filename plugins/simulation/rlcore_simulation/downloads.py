"""Check files of data sets, and name the command that downloads one. Light."""

from __future__ import annotations

import shlex
from pathlib import Path

from rlcore.files import hub

TRY_OUT = "(or env.train.stand_ins=true env.eval.stand_ins=true to try things out)"
"""Behind the command that brings an env's assets."""
# how a file begins that Git LFS has not downloaded yet; rlcore.files.reading, which has it too,
# loads
# yaml, and a simulator's interpreter may have none
POINTER = b"version https://git-lfs"


def is_whole(path: Path) -> bool:
    """Whether it is a file with content of its own: no pointer of Git LFS, not empty, and one that
    this user may read."""
    try:
        with open(path, "rb") as file:
            return file.read(len(POINTER)) not in (b"", POINTER)
    except OSError:
        return False


def download_command(data_set: str, folder: Path) -> str:
    """The command that downloads a data set into a folder; the hub fills its own cache."""
    command = f"hf download --repo-type dataset {data_set}"
    if folder.is_relative_to(hub.cache()):
        return command
    return f"{command} --local-dir {shlex.quote(str(folder))}"
