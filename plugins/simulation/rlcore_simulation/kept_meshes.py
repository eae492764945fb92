"""Cache simplified meshes on disk, by a digest of their inputs.

The folder is `rlcore/meshes` in the user's cache (`XDG_CACHE_HOME`, else `~/.cache`). Files are
written atomically, so that several processes may write the same one. A file that can't be read is
written again. If the folder can't be written to, nothing is cached.
"""

from __future__ import annotations

import hashlib
import math
import os
import tempfile
from contextlib import suppress
from dataclasses import astuple, fields
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from rlcore_simulation import simplify
from rlcore_simulation.simplify import Mesh

# Pixel widths are rounded to powers of this, so that cameras and tasks share meshes.
STEP = 2**0.25


def shared_width(pixel: float) -> float:
    """Round a pixel width down to the next power of :data:`STEP`."""
    return STEP ** math.floor(math.log(pixel, STEP))


def folder() -> Path:
    """Return the folder of cached meshes."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "rlcore" / "meshes"


def kept(mesh: Mesh, pixel: float, seen: np.ndarray) -> Mesh:
    """Return a simplified mesh from the cache, or simplify it now and cache the result.

    Args:
        mesh, pixel, seen: arguments of :func:`rlcore_simulation.simplify.simplified`.
    """
    file = folder() / f"{_digest(mesh, pixel, seen)}.npz"
    cached = _read(file, mesh)
    if cached is not None:
        return cached
    simple = simplify.simplified(mesh, pixel, seen)
    with suppress(OSError):  # the disk is full, or the folder can't be written to
        _write(file, simple)
    return simple


def _digest(mesh: Mesh, pixel: float, seen: np.ndarray) -> str:
    """Return the digest of all inputs of the simplification, including its source code."""
    digest = hashlib.sha256(Path(simplify.__file__).read_bytes())
    digest.update(repr(float(pixel)).encode())
    for array in (*_arrays(mesh), seen):
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _arrays(mesh: Mesh) -> list[np.ndarray]:
    return [np.zeros(0) if array is None else array for array in astuple(mesh)]


def _read(file: Path, mesh: Mesh) -> Mesh | None:
    """Read a cached mesh; return None if there is none, or if the file is damaged."""
    try:
        with np.load(file, allow_pickle=False) as kept_:
            arrays = {name: kept_[name] for name in kept_.files}
        cached = Mesh(points=mesh.points, **{"texcoords": None} | arrays)
    except (OSError, ValueError, BadZipFile, EOFError, KeyError, TypeError):
        return None
    return cached if _fits(cached) else None


def _fits(mesh: Mesh) -> bool:
    """Check that the indices of a mesh have equal shapes and are in range."""
    texcoords = 1 if mesh.texcoords is None else len(mesh.texcoords)
    uses = (
        (mesh.faces, len(mesh.points)),
        (mesh.face_normals, len(mesh.normals)),
        (mesh.face_texcoords, texcoords),
    )
    shape = mesh.faces.shape
    return all(
        part.ndim == 2 and part.shape == shape and part.dtype.kind == "i"
        and (not part.size or (part.min() >= 0 and part.max() < most))
        for part, most in uses
    )  # fmt: skip


def _write(file: Path, mesh: Mesh) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    arrays = {field.name: getattr(mesh, field.name) for field in fields(mesh)}
    del arrays["points"]  # equal to those of the original mesh
    handle, partial = tempfile.mkstemp(dir=file.parent, suffix=".partial")
    try:
        with os.fdopen(handle, "wb") as stream:
            np.savez(stream, **{name: array for name, array in arrays.items() if array is not None})
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(partial, file)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(partial)
