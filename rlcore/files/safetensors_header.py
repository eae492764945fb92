"""Read and check the header of a safetensors file without any tensor library.

The safetensors library checks the format. It rejects truncated files, gaps or overlaps between
tensors, and tensors without dtype, shape or offsets.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open

from rlcore.contracts.errors import CheckpointError
from rlcore.files.damaged_files import damaged_error
from rlcore.files.reading import LFS_POINTER, open_regular

MOST_TENSORS = 100_000
"""Largest number of tensors in a file. The largest networks have as many in a hundred files."""
_WHERE = "Error while deserializing header: "  # prefix of safetensors' error messages


@dataclass(frozen=True)
class TensorHeader:
    """Shape and dtype of a tensor; `dtype` is safetensors' name ("F32", "BF16", ...)."""

    dtype: str
    shape: tuple[int, ...]


def read_headers(path: Path) -> dict[str, TensorHeader]:
    """Return the headers of a file's tensors, by name. The data is not read.

    Raises:
        CheckpointError: the file is missing, unreadable, truncated or not a safetensors file.
    """
    check_regular(path)
    try:
        with safe_open(path, framework="numpy") as file:
            names = file.keys()
            check_tensor_count(path, names)
            slices = {name: file.get_slice(name) for name in names}
            return {
                name: TensorHeader(tensor.get_dtype(), tuple(tensor.get_shape()))
                for name, tensor in slices.items()
            }
    except OSError as error:
        raise CheckpointError(f"{path} can't be read: {error.strerror or error}") from error
    except (SafetensorError, ValueError) as error:
        raise damaged_error(path, str(error).removeprefix(_WHERE)) from error


def check_tensor_count(path: Path, names: Collection[str]) -> None:
    """Raise CheckpointError for a file with more than :data:`MOST_TENSORS` tensors."""
    if len(names) > MOST_TENSORS:
        raise damaged_error(path, f"{len(names)} tensors, a network has at most {MOST_TENSORS}")


def check_regular(path: Path) -> None:
    """Check that a path refers to a regular file with content to read.

    Raises:
        CheckpointError: the file is missing or can't be read; or it is a pipe, which would block
            the reader, a device, a folder or a Git LFS pointer.
    """
    if not path.exists():
        raise CheckpointError(f"{path.parent} holds no {path.name}")
    try:
        with open_regular(path) as file:
            pointer = file.read(len(LFS_POINTER)) == LFS_POINTER
    except OSError as error:
        raise CheckpointError(f"{path} can't be read: {error.strerror or error}") from error
    except ValueError as error:
        raise damaged_error(path, str(error)) from error
    if pointer:
        raise CheckpointError(
            f"{path} is a pointer of Git LFS: the file itself has not been downloaded",
            hint=f"run: cd {path.parent} && git lfs install && git lfs pull",
        )
