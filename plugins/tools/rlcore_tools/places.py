"""Where videos, replays and the last evaluation of a run are."""

from __future__ import annotations

import contextlib
from itertools import count
from pathlib import Path
from urllib.parse import quote

from rlcore.files.atomic import write_text
from rlcore.files.reading import read_text
from rlcore.run_folder.folder import RunFolder

CONCLUSIONS = ("after", "eval", "sft")
"""Labels of the evaluation a run ends with: of training, of an evaluation, of imitation."""
OWNER = "run.txt"
"""Whose a folder is that lies in one which several runs share."""


def clip(folder: RunFolder, label: str, task: str, trial: int) -> Path:
    """Video of one episode of the evaluation `label`. Any text can be a task's name, so it is
    quoted as in an address."""
    return folder.video("eval") / label / f"{quote(task, safe=' ')}-{trial}.mp4"


def last_evaluation(evaluations: Path) -> Path | None:
    """The table of the evaluation that a run ended with, in its folder of evaluations."""
    files = (evaluations / f"{label}.parquet" for label in CONCLUSIONS)
    return next((file for file in files if file.is_file()), None)


def replay_folder(folder: RunFolder, task: str, trial: int) -> Path:
    """Folder of an episode that was played again."""
    return folder.path / "replay" / f"{quote(task, safe=' ')}_{trial}"


def own_place(folder: RunFolder, shared: Path) -> Path:
    """The folder of a run in one that several runs share: of its name, with `-2`, `-3`, ... added
    where another run has taken that. A note in it says whose it is."""
    for number in count(1):
        place = shared / (folder.name if number == 1 else f"{folder.name}-{number}")
        note = place / OWNER
        try:
            place.mkdir(parents=True)  # atomic: of two runs that ask at once, one gets it
        except FileExistsError:
            with contextlib.suppress(OSError, ValueError):  # not a run of rlcore
                if read_text(note).strip() == str(folder.path):
                    return place
            continue
        write_text(note, f"{folder.path}\n")
        return place
    raise AssertionError("unreachable")
