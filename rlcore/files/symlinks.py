"""Reject symlinks that point out of a folder, before the folder is written or copied.

Writing through such a link changes a file outside of the folder. Copying through it copies a file
of the reader's machine that the folder's author chose. Weights may be read through links, because
download caches consist of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from rlcore.contracts.errors import CheckpointError


def require_self_contained(folder: Path) -> None:
    """Check that no symlink in a folder or its subfolders points out of the folder.

    Raises:
        CheckpointError: a symlink does; the error names the link and its target.
    """
    for parent, folders, files in os.walk(folder):
        require_inside(folder, (Path(parent, name) for name in (*folders, *files)))


def require_inside(folder: Path, paths: Iterable[Path]) -> None:
    """Raise CheckpointError if one of these paths is a symlink out of the folder.

    Missing files are allowed.
    """
    for path in paths:
        if path.is_symlink() and leaves_folder(folder, path):
            raise CheckpointError(
                f"{path} is a link to {os.path.realpath(path)}, outside of {folder}: nothing is "
                "written or copied through it",
                hint=f"put a copy in its place, or copy the whole folder: cp -rL {folder} COPY",
            )


def leaves_folder(folder: Path, path: Path) -> bool:
    """Check whether a path in a folder resolves to a file outside of the folder."""
    return not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))
