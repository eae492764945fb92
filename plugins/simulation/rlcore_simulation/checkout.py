"""Find the commit of a simulator that is used as a git checkout. Light to import.

The commit is read from git's files. The command `git` may be missing, needs a process for each
query, and refuses a checkout that belongs to another user.
"""

from __future__ import annotations

import re
from pathlib import Path

from rlcore.contracts.specs import UNKNOWN

COMMIT = re.compile("[0-9a-f]{40}([0-9a-f]{24})?")  # SHA-1 or SHA-256
REFERENCE = "ref:"


def commit_of(folder: Path) -> str:
    """Return the full hash of the commit that is checked out in a folder.

    The result is "unknown" if the folder is not the root of a checkout, or if its references are in
    a format that this module does not read. Uncommitted changes are not detected.
    """
    try:
        found = _found(folder)
    except (OSError, ValueError):
        found = ""
    return found if COMMIT.fullmatch(found) else UNKNOWN


def _found(folder: Path) -> str:
    own = folder / ".git"
    if own.is_file():  # in a worktree or a submodule, this file names the folder
        own = folder / own.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
    head = (own / "HEAD").read_text(encoding="utf-8").strip()
    if not head.startswith(REFERENCE):
        return head
    name = head.removeprefix(REFERENCE).strip()
    shared = own / "commondir"  # in a worktree, this file names the folder of the repository
    whole = own / shared.read_text(encoding="utf-8").strip() if shared.is_file() else own
    for place in (own / name, whole / name):
        if place.is_file():
            return place.read_text(encoding="utf-8").strip()
    for line in (whole / "packed-refs").read_text(encoding="utf-8").splitlines():
        commit, _, its = line.partition(" ")
        if its == name:
            return commit
    return ""
