"""Record the state of a sweep's jobs.

    SWEEP/.jobs/0.json      the record of job 0: arguments, state, error

The record is written by the process that starts the job, on the machine that the launcher chose.
`rlcore resume SWEEP` and the table read the job's state from it only.
"""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from rlcore.contracts.errors import CheckpointError, UserError
from rlcore.files.atomic import write_text
from rlcore.files.damaged_files import read_mapping
from rlcore.files.symlinks import require_inside
from rlcore.files.typed import as_type
from rlcore.utils.text import strip_control
from rlcore_sweeps.pruning import FOLDER as STUDY

JOBS = ".jobs"
State = Literal["not started", "running", "done", "failed", "interrupted"]


class JobFailedError(UserError):
    """A job failed or was interrupted."""

    exit_code = 1


@dataclass(frozen=True)
class JobRecord:
    """The recorded state of a job.

    Attributes:
        number: number of the job, from 0.
        words: the job's overrides, as on a command line.
        label: the overrides in which it differs from other jobs.
        folder: folder of its run; empty before it has one.
        state: state of the latest attempt.
        error: why it failed; empty if it did not.
        seconds: wall time in seconds, summed over all attempts.
        process: process id of the latest attempt and its start time (`psutil`, seconds since the
            epoch), which identifies the process if the id is reused.
    """

    number: int
    words: tuple[str, ...] = ()
    label: str = ""
    folder: str = ""
    state: State = "not started"
    error: str = ""
    seconds: float = 0.0
    process: tuple[int, float] = (0, 0.0)

    def write(self, sweep: Path) -> None:
        """Write the record to `SWEEP/.jobs/NUMBER.json`, atomically."""
        write_text(sweep / JOBS / f"{self.number}.json", json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def load(cls, sweep: Path, number: int) -> JobRecord | None:
        """Read the record of a job; None if there is none.

        `folder` is resolved against the sweep's folder as it is now, which may have been moved or
        copied; it is empty if the run's folder is not inside it.

        Raises:
            CheckpointError: the record is damaged or belongs to another job.
        """
        file = sweep / JOBS / f"{number}.json"
        if not file.is_file():
            return None
        try:
            record = as_type(cls, read_mapping(file))
            if record.number != number:
                raise ValueError(f"it is about job {record.number}")
            if "\0" in record.folder:
                raise ValueError(f"folder must be a path, got {record.folder!r:.60}")
        except ValueError as error:
            raise CheckpointError(
                f"{file} is damaged: {error}",
                hint=f"rm {file}: a resume then continues the job in its folder",
            ) from None
        return replace(
            record,
            label=strip_control(record.label),
            error=strip_control(record.error),
            folder=_folder_in_sweep(sweep, record.folder),
        )

    @classmethod
    def load_all(cls, sweep: Path) -> list[JobRecord]:
        """Read the records of all jobs, in order of their numbers.

        Raises:
            CheckpointError: a record is damaged or belongs to another job.
        """
        stems = (file.stem for file in (sweep / JOBS).glob("*.json"))
        numbers = sorted(int(stem) for stem in stems if stem.isdecimal())
        return [
            record
            for record in (cls.load(sweep, number) for number in numbers)
            if record is not None
        ]


def require_writable_files(sweep: Path) -> None:
    """Check the files and folders that a sweep writes to, before it starts or resumes.

    Raises:
        CheckpointError: a link leads out of the sweep's folder, or a file has the name of one of
            the folders for records.
    """

    def quoted(path: Path) -> str:
        return shlex.quote(str(path))

    for name in (JOBS, STUDY):
        if (sweep / name).exists() and not (sweep / name).is_dir():
            raise CheckpointError(
                f"{sweep / name} is not a folder, but the sweep stores its records there",
                hint=f"mv {quoted(sweep / name)} {quoted(sweep / name)}-old, then try again",
            )
    folders = [folder for folder in (sweep, sweep / JOBS, sweep / STUDY) if folder.is_dir()]
    require_inside(sweep, [path for folder in folders for path in folder.iterdir()])


def _folder_in_sweep(sweep: Path, folder: str) -> str:
    """Return a run's folder inside the sweep's folder as it is now; empty if it is not there.

    In a sweep that was moved or copied, the run is found by the last components of the recorded
    path. A path that leaves the sweep's folder, by `..` or a link, is not accepted: a resume would
    continue another run.
    """
    parts = Path(folder).parts
    current = sweep.absolute()
    moved = (current.joinpath(*parts[-n:]) for n in range(len(parts) - 1, 0, -1))
    candidates = (Path(folder), *moved) if current in Path(folder).parents else moved
    return str(
        next(
            (place for place in candidates if place.is_dir() and is_inside(current, place)),
            "",
        )
    )


def is_inside(sweep: Path, folder: Path) -> bool:
    """Return whether a folder is inside a sweep's folder once links and `..` are resolved."""
    return Path(os.path.realpath(sweep)) in Path(os.path.realpath(folder)).parents
