"""Find the commit of a simulator's repository that is used as a checkout. Light.

Read from its files: git may be missing, takes a process for each query, and refuses a checkout that
belongs to another user.
"""

from __future__ import annotations

import re
from pathlib import Path

from rlcore.contracts.specs import UNKNOWN

COMMIT = re.compile("[0-9a-f]{40}([0-9a-f]{24})?")  # SHA-1 or SHA-256
REFERENCE = "ref:"


def commit_of(folder: Path) -> str:
    """The commit that is checked out in a folder, all of its hexadecimal digits; "unknown" where
    the folder is not the root of a checkout, or keeps its references in a way that is not read
    here. Changes that are not committed are not seen."""
    try:
        found = _found(folder)
    except (OSError, ValueError):
        found = ""
    return found if COMMIT.fullmatch(found) else UNKNOWN


def _found(folder: Path) -> str:
    own = folder / ".git"
    if own.is_file():  # of a worktree or a submodule: it says where
        own = folder / own.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
    head = (own / "HEAD").read_text(encoding="utf-8").strip()
    if not head.startswith(REFERENCE):
        return head
    name = head.removeprefix(REFERENCE).strip()
    shared = own / "commondir"  # what a worktree has of the repository that it belongs to
    whole = own / shared.read_text(encoding="utf-8").strip() if shared.is_file() else own
    for place in (own / name, whole / name):
        if place.is_file():
            return place.read_text(encoding="utf-8").strip()
    for line in (whole / "packed-refs").read_text(encoding="utf-8").splitlines():
        commit, _, its = line.partition(" ")
        if its == name:
            return commit
    return ""
