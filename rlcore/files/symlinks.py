"""Refuse symlinks that lead out of a folder: writing through one changes somebody else's file, and
copying through one takes a file that the folder's author chose on the reader's machine.

Weights may be read through links: download caches are made of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from rlcore.contracts.errors import CheckpointError


def require_no_way_out(folder: Path) -> None:
    """Refuse symlinks that lead out of a folder, before it is written to or copied.

    Raises:
        CheckpointError: names the link and where it leads.
    """
    for place, folders, files in os.walk(folder):
        require_inside(folder, (Path(place, name) for name in (*folders, *files)))


def require_inside(folder: Path, paths: Iterable[Path]) -> None:
    """Refuse such links among some files of a folder; files that are not there pass."""
    for path in paths:
        if path.is_symlink() and leads_out(folder, path):
            raise CheckpointError(
                f"{path} is a link to {os.path.realpath(path)}, outside of {folder}: nothing is "
                "written or copied through it",
                hint=f"put a copy in its place, or copy the whole folder: cp -rL {folder} COPY",
            )


def leads_out(folder: Path, path: Path) -> bool:
    """Return whether a file of a folder, or a folder above it, is a link that leads out of it."""
    return not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))
