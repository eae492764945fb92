"""Find the commit of a simulator that is used as a git checkout. Light to import."""

from __future__ import annotations

import subprocess
from pathlib import Path

from rlcore.contracts.specs import UNKNOWN


def commit_of(folder: Path) -> str:
    """Return the full hash of the commit that is checked out in a folder.

    The result is "unknown" if the folder is not the root of a checkout, if nothing is committed, or
    without git. Uncommitted changes are not detected.
    """
    # With its folder given, git searches no parent folder, and reads the checkout of another user.
    command = ["git", "--git-dir", str(folder / ".git"), "rev-parse", "--verify", "HEAD"]
    try:
        process = subprocess.run(command, capture_output=True, text=True)
    except OSError:
        return UNKNOWN
    return UNKNOWN if process.returncode else process.stdout.strip()
