"""Archive the configuration and manifest of a run, each time it is started or resumed.

    config.yaml, manifest.json, recipe.yaml   files of the latest attempt
    attempts/0001/                            copies of these files from the first attempt, etc.
      outcome/                                its results that a later attempt recomputes
      ended.json                              why it ended, if an error or a signal ended it

An attempt is recorded once its workers are running, so one that fails to start leaves the run
unchanged.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from rlcore.contracts.errors import UserError
from rlcore.files import lock
from rlcore.files.atomic import move, new_folder, write_text

FOLDER = "attempts"
OUTCOME = "outcome"
ENDED = "ended.json"


def enter(run: Path, files: Mapping[str, str]) -> Path:
    """Add an attempt to the history; its files become the run's current files.

    Args:
        run: the run's folder.
        files: text of each file, by file name.

    Returns:
        The folder of the attempt.
    """
    number = 1 + max(map(_number, entered(run)), default=0)
    path = run / FOLDER / f"{number:04d}"
    with new_folder(path) as partial:
        for name, text in files.items():
            (partial / name).write_text(text, encoding="utf-8")
    for name, text in files.items():
        write_text(run / name, text)
    return path


@contextlib.contextmanager
def ending(attempt: Path) -> Iterator[None]:
    """Write `ended.json` if the body raises: `{"state": "failed" | "interrupted", "reason"}`.

    The error is raised again. The note is omitted if it can't be written, or if the run's folder
    was moved or replaced meanwhile.
    """
    try:
        yield
    except BaseException as error:
        state = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
        reason = error.message if isinstance(error, UserError) else repr(error)
        with contextlib.suppress(OSError, UserError):  # a full disk, a folder that was moved
            lock.require_lock(attempt.parent.parent)
            write_text(attempt / ENDED, json.dumps({"state": state, "reason": reason}) + "\n")
        raise


def archive(attempt: Path, files: Iterable[Path]) -> None:
    """Move results of earlier attempts into the folder of the previous attempt.

    The current attempt recomputes them. Missing files are ignored.

    Args:
        attempt: folder of the current attempt.
        files: results that may exist in the run's folder.
    """
    before = [path for path in entered(attempt.parent.parent) if _number(path) < _number(attempt)]
    for file in files:
        if not file.is_file():
            continue
        if before:
            move(file, before[-1] / OUTCOME)
        else:  # the attempt that wrote the file was not recorded, so no folder can take it
            file.unlink()


def read_from_attempts(run: Path, name: str) -> list[Path]:
    """Return the paths of one file in all attempts that have it, oldest first."""
    return [path / name for path in entered(run) if (path / name).is_file()]


def entered(run: Path) -> list[Path]:
    """Return the folders of a run's attempts, in order.

    The run's current files may still be those of the attempt before the last, if the run was killed
    while :func:`enter` recorded the last one.
    """
    entries = (path for path in (run / FOLDER).glob("[0-9]*") if path.name.isdecimal())
    return sorted((path for path in entries if path.is_dir()), key=_number)


def _number(path: Path) -> int:
    return int(path.name)
