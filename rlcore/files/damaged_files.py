"""Report files that are damaged, or of another version, with one error for all readers. Light."""

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
    OSError, ValueError, LookupError, TypeError, AttributeError,
)  # fmt: skip
"""What reading a file raises, and taking apart values that are not as expected."""


def damaged(path: Path, reason: str) -> CheckpointError:
    """Make the error for a file that is not what it was when it was written."""
    return CheckpointError(
        f"{path} is damaged or incomplete ({reason})", hint="copy or download it again"
    )


class OtherVersionError(CheckpointError):
    """A file that is whole, in a form of another version of rlcore."""


def of_another_version(path: Path, says: str, instead: str = "") -> OtherVersionError:
    """Make the error for a file of another version.

    Args:
        says: what there is or is not in it, behind its path.
        instead: what else can be done with it.
    """
    return OtherVersionError(
        f"{path} {says}: {_writer(path)} wrote it, and this is rlcore {__version__}",
        hint=f"the version that wrote it reads it{instead and '; '}{instead}",
    )


def _writer(path: Path) -> str:
    """Find the version of rlcore that wrote a file, from the manifest of its run."""
    with suppress(StopIteration, *UNLIKE):
        paths = (folder / "manifest.json" for folder in path.parents)
        manifest = reading.read_json(next(path for path in paths if path.is_file()))
        git = manifest["git"]  # of a checkout
        commit = f" (commit {git['commit'][:10]})" if git else ""
        version = manifest["versions"]["rlcore"]
        another = "another build of " if version == __version__ else ""
        words = f"{another}rlcore {version}{commit}"
        if words.isprintable():
            return words
    return "another version of rlcore, or another program,"


@contextmanager
def blaming(path: Path, *kinds: type[Exception]) -> Iterator[None]:
    """Raise an error about the file `path` for anything inside that can't be read or parsed.

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
    """Read JSON; raise CheckpointError if the file is missing or not JSON."""
    with blaming(path):
        return reading.read_json(path)


def read_mapping(path: Path) -> dict[str, Any]:
    """Read a JSON object; raise CheckpointError if the file is missing or not a JSON object."""
    content = read_json(path)
    if not isinstance(content, dict):
        raise damaged(path, "it holds no mapping of names to values")
    return content


def read_as(kind: type[T], path: Path) -> T:
    """Read a JSON file as a type; raise CheckpointError if the file is missing, is not JSON, or
    holds a value of another type (:func:`rlcore.files.typed.as_type`)."""
    with blaming(path):
        return as_type(kind, reading.read_json(path))


def _reason(error: Exception) -> str:
    if isinstance(error, OSError | ValueError):
        return reading.reason_of(error)
    if isinstance(error, KeyError):
        return f"it lacks {error}"
    return repr(error)
