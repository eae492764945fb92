"""Check values that are read from the files of a data set."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rlcore.contracts.errors import CheckpointError
from rlcore.files.damaged_files import damaged_on
from rlcore.files.reading import MAX_LINE_BYTES, decode_text, open_regular, parse_json
from rlcore.files.typed import as_type

MAX_NUMBER = 2**31 - 1
MAX_PIXELS = 1 << 26
"""Most pixels of a frame: twice those of 8K."""
CORRECT_TABLE = "correct the table, or convert the data set again: the file itself is undamaged"
CORRECT_CLOCK = (
    "timestamp counts seconds from the episode's start, from_timestamp from the video's: correct "
    "what differs, or convert the data set again; the files themselves are undamaged"
)


class InvalidValueError(ValueError):
    """An invalid value in an undamaged file: another copy of the file would not help."""


def invalid_error(file: Path, problem: str, hint: str) -> CheckpointError:
    """Return the error for an undamaged file that is invalid or contradicts another file."""
    return CheckpointError(f"{file}: {problem}", hint=hint)


@contextmanager
def invalid_on(file: Path) -> Iterator[None]:
    """Convert exceptions of reading a file into one error that names the file.

    Raises:
        CheckpointError: the file is damaged (:func:`rlcore.files.damaged_files.damaged_on`); or it
            is undamaged but invalid, if the exception is an :class:`InvalidValueError`.
    """
    try:
        with damaged_on(file):
            yield
    except CheckpointError as error:
        if isinstance(error.__cause__, InvalidValueError):
            hint = "correct it there, or convert the data set again: the file itself is undamaged"
            raise invalid_error(file, str(error.__cause__), hint) from None
        raise


def whole_number(value: Any, name: str) -> int:
    """Return a whole number from 0 to :data:`MAX_NUMBER`; tables with gaps store it as a float.

    Raises:
        InvalidValueError: the value is not such a number.
    """
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= MAX_NUMBER or value != int(value):
        raise InvalidValueError(f"{name} is {value!r}, expected a whole number of at least 0")
    return int(value)


def read_objects(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the JSON object of each line; the last line may lack a line end.

    Raises:
        CheckpointError: the file is missing, or a line is too long or no JSON object.
    """
    with damaged_on(file), open_regular(file) as stream:
        while line := stream.readline(MAX_LINE_BYTES + 1):
            if len(line) > MAX_LINE_BYTES:
                raise ValueError(f"a line is longer than {MAX_LINE_BYTES} bytes")
            if line.strip():
                yield as_type(dict[str, Any], parse_json(decode_text(line)), "a line")
