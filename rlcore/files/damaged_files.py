"""Create the errors for files that are damaged or that another version of rlcore wrote. Light."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from rlcore.contracts.errors import CheckpointError
from rlcore.contracts.version import __version__
from rlcore.files import reading
from rlcore.files.typed import as_type

T = TypeVar("T")
UNLIKE: tuple[type[Exception], ...] = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
)
"""Exceptions of reading a file and of accessing values that are not as expected."""


def damaged_error(path: Path, reason: str) -> CheckpointError:
    """Return the error for a file whose content changed since it was written.

    Args:
        reason: how the change was detected, in a few words.
    """
    return CheckpointError(
        f"{path} is damaged or incomplete ({reason})", hint="copy or download it again"
    )


class OtherVersionError(CheckpointError):
    """Error for a complete file in the format of another version of rlcore."""


def of_another_version(path: Path, says: str, instead: str = "") -> OtherVersionError:
    """Return the error for a file that another version of rlcore wrote.

    Args:
        says: predicate of the message's sentence, whose subject is the path.
        instead: another way to use the file, for the hint.
    """
    return OtherVersionError(
        f"{path} {says}: {_writer(path)} wrote it, and this is rlcore {__version__}",
        hint=f"the version that wrote it reads it{instead and '; '}{instead}",
    )


def _writer(path: Path) -> str:
    """Return a description of the program that wrote a file, from the manifest of its run."""
    with suppress(StopIteration, *UNLIKE):
        paths = (folder / "manifest.json" for folder in path.parents)
        manifest = reading.read_json(next(path for path in paths if path.is_file()))
        git = manifest["git"]  # empty if rlcore did not run from a checkout
        commit = f" (commit {git['commit'][:10]})" if git else ""
        version = manifest["versions"]["rlcore"]
        build = "another build of " if version == __version__ else ""
        description = f"{build}rlcore {version}{commit}"
        if description.isprintable():
            return description
    return "another version of rlcore, or another program,"


@contextmanager
def damaged_on(path: Path, *kinds: type[Exception]) -> Iterator[None]:
    """Convert exceptions of reading or parsing a file into one error that names the file.

    Args:
        kinds: further exception classes, such as those of the library that reads the file.

    Raises:
        CheckpointError: see :func:`damaged_error`.
    """
    try:
        yield
    except UNLIKE + kinds as error:
        raise damaged_error(path, _reason(error)) from error


def read_json(path: Path) -> Any:
    """Read JSON; raise CheckpointError if the file is missing or not JSON."""
    with damaged_on(path):
        return reading.read_json(path)


def read_mapping(path: Path) -> dict[str, Any]:
    """Read a JSON object; raise CheckpointError if the file is missing or not a JSON object."""
    content = read_json(path)
    if not isinstance(content, dict):
        raise damaged_error(path, "it holds no mapping of names to values")
    return content


def read_as(kind: type[T], path: Path) -> T:
    """Read a JSON file as a value of a type (:func:`rlcore.files.typed.as_type`).

    Raises:
        CheckpointError: the file is missing, is not JSON, or contains a value of another type.
    """
    with damaged_on(path):
        return as_type(kind, reading.read_json(path))


def _reason(error: Exception) -> str:
    if isinstance(error, OSError | ValueError):
        return reading.error_reason(error)
    if isinstance(error, KeyError):
        return f"it lacks {error}"
    return repr(error)
