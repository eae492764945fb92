"""Read and check the header of a safetensors file without any tensor library.

The rules of the format are safetensors' own: files that are cut off, have holes or overlaps, or
lack the type, shape or offsets of a tensor are refused.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open

from rlcore.contracts.errors import CheckpointError
from rlcore.files.damaged_files import damaged
from rlcore.files.reading import POINTER, open_regular

MOST_TENSORS = 100_000
"""In a file; the largest networks have that many in a hundred files."""
_WHERE = "Error while deserializing header: "  # before the reason, in safetensors' words


@dataclass(frozen=True)
class TensorHeader:
    """One tensor of a file: `dtype` in safetensors' own words ("F32", "BF16", ...)."""

    dtype: str
    shape: tuple[int, ...]


def read_headers(path: Path) -> dict[str, TensorHeader]:
    """Tensors of a safetensors file, by name. Only the header is read.

    Raises:
        CheckpointError: the file is missing, can't be read, is cut off or not a safetensors file.
    """
    check_here(path)
    try:
        with safe_open(path, framework="numpy") as file:
            names = file.keys()
            require_few(path, names)
            slices = {name: file.get_slice(name) for name in names}
            return {
                name: TensorHeader(one.get_dtype(), tuple(one.get_shape()))
                for name, one in slices.items()
            }
    except OSError as error:
        raise CheckpointError(f"{path} can't be read: {error.strerror or error}") from error
    except (SafetensorError, ValueError) as error:
        raise damaged(path, str(error).removeprefix(_WHERE)) from error


def require_few(path: Path, names: Collection[str]) -> None:
    """Raise CheckpointError for a file of more than :data:`MOST_TENSORS`."""
    if len(names) > MOST_TENSORS:
        raise damaged(path, f"{len(names)} tensors, a network has at most {MOST_TENSORS}")


def check_here(path: Path) -> None:
    """Refuse a path at which no content is to be read.

    Raises:
        CheckpointError: there is nothing, a pipe, a device or a folder (a pipe would be waited
            for); or a pointer that Git LFS has left in the place of the file.
    """
    if not path.exists():
        raise CheckpointError(f"{path.parent} holds no {path.name}")
    try:
        with open_regular(path) as file:
            pointer = file.read(len(POINTER)) == POINTER
    except OSError as error:
        raise CheckpointError(f"{path} can't be read: {error.strerror or error}") from error
    except ValueError as error:
        raise damaged(path, str(error)) from error
    if pointer:
        raise CheckpointError(
            f"{path} is a pointer of Git LFS: the file itself has not been downloaded",
            hint=f"run: cd {path.parent} && git lfs install && git lfs pull",
        )
