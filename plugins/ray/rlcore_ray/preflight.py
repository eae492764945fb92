"""Check that Ray can start on this machine: try the places it writes to.

For most of these problems Ray's own error is that it "timed out during startup", after half a
minute.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from rlcore.contracts.errors import AssetError

SOCKET_PATH = 107 if sys.platform.startswith("linux") else 103  # bytes of an AF_UNIX address
SHARED_MEMORY = Path("/dev/shm")


def require_startable(environ: Mapping[str, str] = os.environ) -> None:
    """Try the places where our own cluster keeps its files.

    Raises:
        AssetError: one can't be used; names it, its variable and what to do.
    """
    for problem, hint in _problems(environ):
        raise AssetError(
            f"Ray can't start: {problem}", hint=f"{hint}; cluster.backend=local does without Ray"
        )


def _problems(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield (problem, hint) for each place that Ray can't use."""
    variable, temporary = _temporary(environ)
    where = f"sockets and logs go to {temporary / 'ray'} ({variable})"
    hint = "export RAY_TMPDIR=FOLDER, a short one that you may write to"
    session = f"session_2026-01-01_00-00-00_000000_{os.getpid()}"  # as long as Ray's names
    longest = SOCKET_PATH - len(f"/ray/{session}/sockets/plasma_store")
    if len(os.fsencode(temporary)) > longest:
        yield f"{where}, and sockets have room for folders of {longest} bytes", hint
    reason = _unwritable(temporary / "ray")
    if reason:
        yield f"{where}, {reason}", hint
    if SHARED_MEMORY.is_dir():
        reason = _unwritable(SHARED_MEMORY)
        if reason:
            yield (
                f"its object store is in {SHARED_MEMORY}, {reason}",
                f"mount {SHARED_MEMORY} so that you may write to it (docker run --shm-size=8g)",
            )


def _temporary(environ: Mapping[str, str]) -> tuple[str, Path]:
    """Return (variable, folder) by which Ray chooses the parent of its folder for sessions."""
    names = ("RAY_TMPDIR", "TMPDIR") if sys.platform.startswith("linux") else ("RAY_TMPDIR",)
    for name in names:
        if name in environ:
            return name, Path(environ[name])
    return "RAY_TMPDIR is not set", Path("/tmp")


def _unwritable(folder: Path) -> str:
    """Return why no file can be made in a folder, which is made if it is missing; else empty."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return f"which can't be written to: {error.strerror or error}"
