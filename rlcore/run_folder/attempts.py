"""Archive the configuration and manifest of a run, each time it is started or resumed.

    config.yaml, manifest.json, recipe.yaml   of the last attempt
    attempts/0001/                            the same of the first attempt, and so on
      outcome/                                its results, once a later attempt goes on from before
      ended.json                              why it ended, where it did so by an error or a signal

An attempt is recorded once its workers are up: one that fails to start leaves the run unchanged.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from rlcore.contracts.errors import UserError
from rlcore.files import lock
from rlcore.files.atomic import move, new_folder, write_text

FOLDER, OUTCOME, ENDED = "attempts", "outcome", "ended.json"


def enter(run: Path, papers: Mapping[str, str]) -> Path:
    """Add an attempt to the history; from now on its papers are the run's.

    Args:
        run: its folder.
        papers: texts by the names of their files.

    Returns:
        The folder of the attempt.
    """
    number = 1 + max(map(_number, entered(run)), default=0)
    path = run / FOLDER / f"{number:04d}"
    with new_folder(path) as partial:
        for name, text in papers.items():
            (partial / name).write_text(text, encoding="utf-8")
    for name, text in papers.items():
        write_text(run / name, text)
    return path


@contextlib.contextmanager
def ending(attempt: Path) -> Iterator[None]:
    """Note why an attempt ended early: `{"state": "failed" | "interrupted", "reason"}`."""
    try:
        yield
    except BaseException as error:
        state = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
        reason = error.message if isinstance(error, UserError) else repr(error)
        with contextlib.suppress(OSError, UserError):  # a full disk, a folder that was moved
            lock.require_held(attempt.parent.parent)
            write_text(attempt / ENDED, json.dumps({"state": state, "reason": reason}) + "\n")
        raise


def archive(attempt: Path, files: Iterable[Path]) -> None:
    """Move what an earlier attempt came to into its entry, as it is going to be made again."""
    before = [path for path in entered(attempt.parent.parent) if _number(path) < _number(attempt)]
    for file in files:
        if not file.is_file():
            continue
        if before:
            move(file, before[-1] / OUTCOME)
        else:  # that attempt never got its workers up, or is older than the history
            file.unlink()


def read_from_attempts(run: Path, name: str) -> list[Path]:
    """The paper of that name of each attempt that has it, oldest first."""
    return [path / name for path in entered(run) if (path / name).is_file()]


def entered(run: Path) -> list[Path]:
    """Folders of the attempts of a run, in order; the papers of the last may not yet be its own, as
    it may have been killed in between."""
    entries = (path for path in (run / FOLDER).glob("[0-9]*") if path.name.isdecimal())
    return sorted((path for path in entries if path.is_dir()), key=_number)


def _number(path: Path) -> int:
    return int(path.name)
