"""Files that are not what they were when they were written: one error for all of them. Light."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rlcore import reading
from rlcore.errors import CheckpointError

UNLIKE: tuple[type[Exception], ...] = (
    OSError, ValueError, LookupError, TypeError, AttributeError,
)  # fmt: skip
"""What reading a file raises, and taking apart values that are not as expected."""


def damaged(path: Path, reason: str) -> CheckpointError:
    """The error for a file that is not what it was when it was written."""
    return CheckpointError(
        f"{path} is damaged or incomplete ({reason})", hint="copy or download it again"
    )


@contextmanager
def blaming(path: Path, *kinds: type[Exception]) -> Iterator[None]:
    """Whatever can't be read or taken apart inside is the fault of the file `path`.

    Args:
        kinds: of further exceptions, such as those of the library that reads it.

    Raises:
        CheckpointError: see :func:`damaged`.
    """
    try:
        yield
    except UNLIKE + kinds as error:
        raise damaged(path, _reason(error)) from error


def read_json(path: Path) -> Any:
    """Raises CheckpointError if the file is missing or not JSON."""
    with blaming(path):
        return reading.read_json(path)


def read_mapping(path: Path) -> dict[str, Any]:
    """Raises CheckpointError if the file is missing or not a JSON object."""
    content = read_json(path)
    if not isinstance(content, dict):
        raise damaged(path, "it holds no mapping of names to values")
    return content


def _reason(error: Exception) -> str:
    if isinstance(error, OSError | ValueError):
        return reading.reason_of(error)
    if isinstance(error, KeyError):
        return f"it lacks {error}"
    return repr(error)
