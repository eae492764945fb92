"""One job of a sweep: a process of its own that runs `rlcore VERB ...`, and the note on it.

    SWEEP/.jobs/0.json      which words, how far it got, why it failed
    SWEEP/.jobs/0.log       what it prints; goes to RUN/output.txt once it has ended

The note is written by whoever plays the job, on whatever machine a launcher has put that, and is
all that `rlcore resume SWEEP` and the table go by.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import psutil

from rlcore.config.overrides import quote
from rlcore.config.schema_tree import leaves
from rlcore.contracts.errors import CheckpointError, ConfigError, UserError, choosing
from rlcore.files.atomic import write_text
from rlcore.files.damaged_files import blaming, read_mapping
from rlcore.files.reading import read_text
from rlcore.files.symlinks import require_inside
from rlcore.files.typed import as_type
from rlcore.process import signals
from rlcore.run_folder.folder import METRICS
from rlcore.terminal.text import plain
from rlcore_sweeps.pruning import FOLDER as STUDY
from rlcore_sweeps.pruning import JOB

JOBS, OUTPUT, SUMMARY = ".jobs", "output.txt", "summary.json"
CHILD = ("-m", "rlcore_sweeps.child")
SUCCESS = "success_after.rate"
METRIC = "/"
"""What names of metrics have in them, and entries of summary.json don't."""
State = Literal["not started", "running", "done", "failed", "interrupted"]
STOPPED = 60.0  # seconds that a job's process may be stopped
LOOK = 1.0  # seconds between two looks whether it is
OUTLIVES = 60.0  # seconds that a job has to end by itself when its sweep was killed
ENDED = 20000  # characters at the end of a job's output in which its error is looked for


class JobFailed(UserError):
    """A job that did not come to its end."""

    exit_code = 1


@dataclass(frozen=True)
class Note:
    """What is known of a job.

    Attributes:
        number: from 0.
        words: its own, as a command line has them.
        label: what tells it from the others.
        folder: of its run; empty before it has one.
        state: how far it got.
        error: why it failed.
        seconds: wall time, of all its attempts.
        process: that plays it, or did so last, and when that was started, as the system counts.
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
        """Keep it."""
        write_text(sweep / JOBS / f"{self.number}.json", json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def of(cls, sweep: Path, number: int) -> Note | None:
        """The note on a job; None where there is none. Its folder is one in the sweep's folder as
        that is now, moved or copied, and empty where that has no such folder.

        Raises:
            CheckpointError: it is damaged, or is not the note on this job.
        """
        file = sweep / JOBS / f"{number}.json"
        if not file.is_file():
            return None
        try:
            note = as_type(cls, read_mapping(file))
            if note.number != number:
                raise ValueError(f"it is about job {note.number}")
            if "\0" in note.folder:
                raise ValueError(f"folder must be a path, got {note.folder!r:.60}")
        except ValueError as error:
            raise CheckpointError(
                f"{file} is damaged: {error}",
                hint=f"rm {file}: the job is gone on with in its folder",
            ) from None
        return replace(
            note,
            label=plain(note.label),
            error=plain(note.error),
            folder=_inside(sweep, note.folder),
        )

    @classmethod
    def all(cls, sweep: Path) -> list[Note]:
        """Of all jobs, by number."""
        stems = (file.stem for file in (sweep / JOBS).glob("*.json"))
        numbers = sorted(int(stem) for stem in stems if stem.isdecimal())
        return [note for note in (cls.of(sweep, number) for number in numbers) if note is not None]


def require_own_files(sweep: Path) -> None:
    """Check the files and folders that a sweep is going to write to, before it goes on.

    Raises:
        CheckpointError: a link leads out of the sweep's folder, or notes can't be kept in it.
    """

    def quoted(path: Path) -> str:
        return shlex.quote(str(path))

    for name in (JOBS, STUDY):
        if (sweep / name).exists() and not (sweep / name).is_dir():
            raise CheckpointError(
                f"{sweep / name} is not a folder, but the sweep keeps its notes there",
                hint=f"mv {quoted(sweep / name)} {quoted(sweep / name)}-old, then do this again",
            )
    folders = [folder for folder in (sweep, sweep / JOBS, sweep / STUDY) if folder.is_dir()]
    require_inside(sweep, [path for folder in folders for path in folder.iterdir()])


@dataclass
class Playing:
    """A job that is being played.

    Attributes:
        note: kept after each change.
        sweep: the sweep's folder.
        process: its process.
        began: seconds of `time.monotonic`.
        stopped: for how many seconds it has been stopped (SIGSTOP), as far as was looked.
        hung: why it was killed; empty: it was not.
    """

    note: Note
    sweep: Path
    process: subprocess.Popen[bytes]
    began: float = field(default_factory=time.monotonic)
    stopped: float = 0.0
    hung: str = ""
    _looked: float = field(default_factory=time.monotonic)

    @classmethod
    def start(
        cls,
        note: Note,
        sweep: Path,
        command: Sequence[str],
        *,
        cores: Sequence[int] = (),
        env: Mapping[str, str] | None = None,
    ) -> Playing:
        """Start its process.

        Args:
            command: words behind `rlcore`.
            cores: those that it may use; empty: as this process.
            env: its environment; None: that of this process.
        """
        note.write(sweep)
        child = [sys.executable, *CHILD, str(os.getpid())]
        child += [",".join(map(str, cores)), *command]
        env = {**(os.environ if env is None else env), JOB: str(sweep / str(note.number))}
        with (sweep / JOBS / f"{note.number}.log").open("ab") as log:
            process = subprocess.Popen(
                child, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env,
                start_new_session=True,  # Ctrl-C of the terminal is for us to hand on
            )  # fmt: skip
        with contextlib.suppress(psutil.NoSuchProcess):
            began = psutil.Process(process.pid).create_time()
            note = replace(note, process=(process.pid, began))
        note.write(sweep)
        return cls(note, sweep, process)

    def tell(self, number: int) -> None:
        """Send it a signal."""
        if self.process.poll() is None:
            self.process.send_signal(number)

    def going(self) -> bool:
        """Whether its process runs; to be asked all the while. One that has been stopped for
        :data:`STOPPED` seconds is killed: a run ends by itself whatever else hangs, but not so."""
        if self.process.poll() is not None:
            return False
        now = time.monotonic()
        if now - self._looked >= LOOK:
            passed, self._looked = now - self._looked, now
            with contextlib.suppress(psutil.Error):
                stopped = psutil.Process(self.process.pid).status() == psutil.STATUS_STOPPED
                # this process may have been stopped itself
                self.stopped = self.stopped + min(passed, 2 * LOOK) if stopped else 0.0
            if self.stopped >= STOPPED:
                self.hung = (
                    f"its process (pid {self.process.pid}) was stopped (SIGSTOP?) for "
                    f"{STOPPED:g} s, and was killed"
                )
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.process.pid, signal.SIGKILL)
        return True

    def wait(self) -> None:
        """Wait for the end of its process."""
        while self.going():
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(LOOK)

    def ended(self, *, interrupted: bool = False) -> Note:
        """Wait for its end and note it. A run that had finished before its process was killed is
        done; one that failed after its summary is told of once, and is done for a resume."""
        self.wait()
        code = self.process.returncode
        folder = Path(self.note.folder)
        if code < 0 and is_finished(folder):
            code = 0
        log = self.sweep / JOBS / f"{self.note.number}.log"
        state: State = "interrupted" if interrupted else "failed"
        error = "" if code == 0 or interrupted else self.hung or _error(log, code)
        if (folder / "config.yaml").is_file():
            with (folder / OUTPUT).open("ab") as output:
                output.write(log.read_bytes())
            log.unlink()
        seconds = self.note.seconds + time.monotonic() - self.began
        self.note = replace(
            self.note, state="done" if code == 0 else state, error=error, seconds=seconds
        )
        self.note.write(self.sweep)
        return self.note


def play(started: Playing) -> Note:
    """Wait for a job; a signal to end goes on to it."""
    try:
        started.wait()
    except BaseException as error:
        started.tell(handed_on(error))
        started.ended(interrupted=True)
        raise
    return started.ended()


def handed_on(error: BaseException) -> int:
    """The signal that jobs get when their sweep ends by an error."""
    return signals.number_of(error) if isinstance(error, KeyboardInterrupt) else signal.SIGTERM


def is_finished(run: Path) -> bool:
    """Check whether a run came to its end: nothing is left to do once it has its summary."""
    return (run / SUMMARY).is_file()


def settled(note: Note) -> Note:
    """The note on a job of an earlier attempt, which is done where its run has finished since.

    Raises:
        JobFailed: its process is still playing it.
    """
    _outlived(note)
    if note.state == "done" or not is_finished(Path(note.folder)):
        return note
    return replace(note, state="done", error="")


def command_of(note: Note, verb: str, flags: Sequence[str]) -> tuple[Note, tuple[str, ...]]:
    """The words behind `rlcore` that play a job, or that go on with it where it has begun.

    Args:
        note: its folder is the place that it was given; the note that comes back has the one
            that it gets.
        verb, flags: of the sweep.
    """
    folder = Path(note.folder)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()  # made by a launcher of others
    if verb == "train" and (folder / "config.yaml").is_file():
        trust = [flag for flag in flags if flag == "--trust"]
        return note, ("resume", str(folder), *trust)
    number, place = 1, folder
    while place.exists():  # nothing is ever overwritten
        number += 1
        place = folder.with_name(f"{folder.name}-{number}")
    logger = "runner.logger"
    own = (
        f"{logger}.log_path={quote(place.parent.parent)}",
        f"{logger}.experiment_name={quote(f'{place.parent.name}/{place.name}')}",
    )
    return replace(note, folder=str(place)), (verb, *flags, *note.words, *own)


def _outlived(note: Note) -> None:
    """Wait for a process that is left of a sweep that was killed: it writes its checkpoint.

    Raises:
        JobFailed: it does not end.
    """
    number, began = note.process
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(number) if note.state == "running" and number else None
        if process is None or process.create_time() != began:
            return
        until = time.monotonic() + OUTLIVES
        while time.monotonic() < until:
            if process.status() == psutil.STATUS_STOPPED:  # it writes nothing any more, nor ends
                process.kill()
            with contextlib.suppress(psutil.TimeoutExpired):
                process.wait(LOOK)
                return
    if number and psutil.pid_exists(number):
        raise JobFailed(
            f"job {note.number} {note.label} is still being played by process {number}",
            hint=f"wait for it, or end it: kill {number}",
        )


def objective_of(note: Note, paths: Sequence[str]) -> float | tuple[float, ...] | None:
    """What a sweeper is told of a job that is done: entries of its summary.json.

    Args:
        paths: of them, or metrics, as last logged ("eval/success_once"); none: the success after
            training, where it was measured.

    Raises:
        JobFailed: it is not done.
        ConfigError: its summary has no such number.
    """
    if note.state != "done":
        raise JobFailed(f"job {note.number} {note.label}: {note.error or note.state}")
    file = Path(note.folder) / SUMMARY
    if not paths and not file.is_file():
        return None
    numbers = (pair for pair in leaves(read_mapping(file)) if isinstance(pair[1], (int, float)))
    kept = {path: float(value) for path, value in numbers}
    kept |= _last_metrics(Path(note.folder), paths)
    values = tuple(kept.get(path) for path in paths or (SUCCESS,))
    if not paths and values[0] is None:
        return None
    for path, value in zip(paths, values, strict=False):
        if value is None:
            raise ConfigError(
                f"sweep.objective: {file} has no number {path!r}{choosing(path, kept)}"
            )
    found = tuple(value for value in values if value is not None)
    return found if len(found) > 1 else found[0]


def _inside(sweep: Path, folder: str) -> str:
    """A run's folder where it is in the sweep's folder now; empty where it is nowhere in it.

    A sweep that was moved or copied holds it under the last names of the noted path. Nothing leads
    out of the sweep's folder, neither `..` nor a link: another run would be gone on with.
    """
    parts, here = Path(folder).parts, sweep.absolute()
    ends = (here.joinpath(*parts[-n:]) for n in range(len(parts) - 1, 0, -1))
    places = (Path(folder), *ends) if here in Path(folder).parents else ends
    return str(
        next(
            (place for place in places if place.is_dir() and is_below(here, place)),
            "",
        )
    )


def is_below(sweep: Path, folder: Path) -> bool:
    """Check whether a folder is in a sweep's folder, whatever links and `..` are on the way."""
    return Path(os.path.realpath(sweep)) in Path(os.path.realpath(folder)).parents


def _last_metrics(run: Path, names: Sequence[str]) -> dict[str, float]:
    """The last logged value of each of these metrics."""
    found: dict[str, float] = {}
    if any(METRIC in name for name in names):
        with blaming(run / METRICS):
            for line in read_text(run / METRICS).splitlines():
                values = as_type(dict[str, Any], json.loads(line))
                found |= {name: value for name, value in values.items() if name in names}
    return found


def _error(log: Path, code: int) -> str:
    """Why a job failed: the error that it printed last, the last line, or the signal."""
    if code < 0 and -code not in (signal.SIGINT, signal.SIGTERM):
        return f"killed by {signal.Signals(-code).name}"
    text = plain(log.read_bytes()[-ENDED:].decode(errors="replace").replace("\r", "\n"))
    said = re.findall(r"^error: (.*?)(?=^  hint: |\Z)", text, re.MULTILINE | re.DOTALL)
    lines = [line for line in text.splitlines() if line.strip()]
    return said[-1].strip() if said else lines[-1] if lines else f"exit code {code}"
