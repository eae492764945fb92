"""Run one job of a sweep, a separate process of `rlcore VERB ...`, and store its state.

    SWEEP/.jobs/0.json      the job's record: arguments, state, error
    SWEEP/.jobs/0.log       output of the process; appended to RUN/output.txt when it ends

The record is written by the process that starts the job, on the machine that the launcher chose.
`rlcore resume SWEEP` and the table read the job's state from it only.
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
from rlcore.contracts.errors import CheckpointError, ConfigError, UserError, choices_message
from rlcore.files.atomic import write_text
from rlcore.files.damaged_files import damaged_on, read_mapping
from rlcore.files.reading import read_text
from rlcore.files.symlinks import require_inside
from rlcore.files.typed import as_type
from rlcore.runs.folder import METRICS
from rlcore.utils import signals
from rlcore.utils.text import strip_control
from rlcore_sweeps.pruning import FOLDER as STUDY
from rlcore_sweeps.pruning import JOB

JOBS, OUTPUT, SUMMARY = ".jobs", "output.txt", "summary.json"
JOB_PROCESS = ("-m", "rlcore_sweeps.job_process")
SUCCESS = "success_after.rate"
METRIC = "/"
"""Separator in names of metrics; entries of summary.json never contain it."""
State = Literal["not started", "running", "done", "failed", "interrupted"]
STOPPED_TIMEOUT_S = (
    60.0  # seconds that a job's process may be stopped (SIGSTOP) before it is killed
)
POLL_S = 1.0  # seconds between two checks for that
PREVIOUS_TIMEOUT_S = 60.0  # seconds to wait for a job that outlived its killed sweep
ERROR_TAIL_BYTES = 20000  # bytes at the end of a job's output that are searched for its error


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


@dataclass
class RunningJob:
    """A running job.

    Attributes:
        record: record of the job, written after each change.
        sweep: the sweep's folder.
        process: process of the job.
        began: start time, by `time.monotonic` in seconds.
        stopped: seconds for which the process has been stopped (SIGSTOP), as of the last check.
        hung: why :meth:`going` killed the process; empty if it did not.
    """

    record: JobRecord
    sweep: Path
    process: subprocess.Popen[bytes]
    began: float = field(default_factory=time.monotonic)
    stopped: float = 0.0
    hung: str = ""
    _polled_at: float = field(default_factory=time.monotonic)

    @classmethod
    def start(
        cls,
        record: JobRecord,
        sweep: Path,
        command: Sequence[str],
        *,
        cores: Sequence[int] = (),
        env: Mapping[str, str] | None = None,
    ) -> RunningJob:
        """Start the process of a job, and write its process id into the record.

        Args:
            record: record of the job.
            sweep: the sweep's folder.
            command: arguments of `rlcore`.
            cores: core numbers to pin the process to; empty: inherit this process's affinity.
            env: environment of the process; None: inherit this process's.
        """
        record.write(sweep)
        arguments = [sys.executable, *JOB_PROCESS, str(os.getpid())]
        arguments += [",".join(map(str, cores)), *command]
        env = {**(os.environ if env is None else env), JOB: str(sweep / str(record.number))}
        with (sweep / JOBS / f"{record.number}.log").open("ab") as log:
            process = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=env,
                start_new_session=True,  # so that only this process gets Ctrl-C and forwards it
            )
        with contextlib.suppress(psutil.NoSuchProcess):
            began = psutil.Process(process.pid).create_time()
            record = replace(record, process=(process.pid, began))
        record.write(sweep)
        return cls(record, sweep, process)

    def signal(self, number: int) -> None:
        """Send the process a signal, if it still runs."""
        if self.process.poll() is None:
            self.process.send_signal(number)

    def going(self) -> bool:
        """Return whether the process runs; must be polled while it does.

        A process that has been stopped (SIGSTOP) for :data:`STOPPED_TIMEOUT_S` seconds is killed
        with its process group: a run's own timeouts end every other hang, but cannot fire while
        it is stopped.
        """
        if self.process.poll() is not None:
            return False
        now = time.monotonic()
        if now - self._polled_at >= POLL_S:
            passed, self._polled_at = now - self._polled_at, now
            with contextlib.suppress(psutil.Error):
                stopped = psutil.Process(self.process.pid).status() == psutil.STATUS_STOPPED
                # the interval is capped because this process may have been stopped, too
                self.stopped = self.stopped + min(passed, 2 * POLL_S) if stopped else 0.0
            if self.stopped >= STOPPED_TIMEOUT_S:
                self.hung = (
                    f"its process (pid {self.process.pid}) was stopped (SIGSTOP?) for "
                    f"{STOPPED_TIMEOUT_S:g} s, and was killed"
                )
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.process.pid, signal.SIGKILL)
        return True

    def wait(self) -> None:
        """Wait until the process ends, or is killed by :meth:`going`."""
        while self.going():
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(POLL_S)

    def ended(self, *, interrupted: bool = False) -> JobRecord:
        """Wait until the process ends, and write the record with its final state.

        A run that had written its summary before its process was killed counts as done. If the
        process failed after the summary, this attempt is recorded as failed, and a resume treats
        the job as done (:func:`with_final_state`).

        Args:
            interrupted: the sweep was interrupted, so that a job with an error is "interrupted".

        Returns:
            the record that was written.
        """
        self.wait()
        code = self.process.returncode
        folder = Path(self.record.folder)
        if code < 0 and is_finished(folder):
            code = 0
        log = self.sweep / JOBS / f"{self.record.number}.log"
        state: State = "interrupted" if interrupted else "failed"
        error = "" if code == 0 or interrupted else self.hung or _error(log, code)
        if (folder / "config.yaml").is_file():
            with (folder / OUTPUT).open("ab") as output:
                output.write(log.read_bytes())
            log.unlink()
        seconds = self.record.seconds + time.monotonic() - self.began
        self.record = replace(
            self.record, state="done" if code == 0 else state, error=error, seconds=seconds
        )
        self.record.write(self.sweep)
        return self.record


def wait_for(started: RunningJob) -> JobRecord:
    """Wait for a job and return its final record.

    An exception while waiting, such as Ctrl-C, is raised again once the job was signalled to end
    and has ended.
    """
    try:
        started.wait()
    except BaseException as error:
        started.signal(forwarded_signal(error))
        started.ended(interrupted=True)
        raise
    return started.ended()


def forwarded_signal(error: BaseException) -> int:
    """Return the signal to send to jobs when an error ends their sweep.

    That is the signal that interrupted the sweep, or else SIGTERM.
    """
    return signals.signal_number(error) if isinstance(error, KeyboardInterrupt) else signal.SIGTERM


def is_finished(run: Path) -> bool:
    """Return whether a run is complete: its summary is the last file that it writes."""
    return (run / SUMMARY).is_file()


def with_final_state(record: JobRecord) -> JobRecord:
    """Return the record of an earlier attempt, set to "done" if the run has finished since.

    Raises:
        JobFailedError: the process of that attempt still runs after
            :data:`PREVIOUS_TIMEOUT_S` seconds.
    """
    _wait_for_previous(record)
    if record.state == "done" or not is_finished(Path(record.folder)):
        return record
    return replace(record, state="done", error="")


def command_of(
    record: JobRecord, verb: str, flags: Sequence[str]
) -> tuple[JobRecord, tuple[str, ...]]:
    """Return the arguments of `rlcore` that start a job, or resume it if it has started.

    Only training runs are resumed. Other jobs start again in a new folder, with `-2`, `-3`, ...
    added to the name, because nothing is overwritten.

    Args:
        record: record of the job; its folder is the one that the sweep assigned.
        verb, flags: verb and flags of the sweep.

    Returns:
        the record with the folder that the run uses, and the arguments.
    """
    folder = Path(record.folder)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()  # made by a third-party launcher; an empty folder would count as taken
    if verb == "train" and (folder / "config.yaml").is_file():
        trust = [flag for flag in flags if flag == "--trust"]
        return record, ("resume", str(folder), *trust)
    number, place = 1, folder
    while place.exists():
        number += 1
        place = folder.with_name(f"{folder.name}-{number}")
    logger = "runner.logger"
    logger_overrides = (
        f"{logger}.log_path={quote(place.parent.parent)}",
        f"{logger}.experiment_name={quote(f'{place.parent.name}/{place.name}')}",
    )
    return replace(record, folder=str(place)), (verb, *flags, *record.words, *logger_overrides)


def _wait_for_previous(record: JobRecord) -> None:
    """Wait for a job's process that outlived its killed sweep: it is writing its checkpoint.

    A stopped process is killed.

    Raises:
        JobFailedError: the process does not end within :data:`PREVIOUS_TIMEOUT_S` seconds.
    """
    number, began = record.process
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(number) if record.state == "running" and number else None
        if process is None or process.create_time() != began:
            return
        until = time.monotonic() + PREVIOUS_TIMEOUT_S
        while time.monotonic() < until:
            if process.status() == psutil.STATUS_STOPPED:  # it would neither write nor end
                process.kill()
            with contextlib.suppress(psutil.TimeoutExpired):
                process.wait(POLL_S)
                return
    if number and psutil.pid_exists(number):
        raise JobFailedError(
            f"job {record.number} {record.label} still runs in process {number}",
            hint=f"wait until it ends, or end it: kill {number}",
        )


def objective_of(record: JobRecord, paths: Sequence[str]) -> float | tuple[float, ...] | None:
    """Return the objective of a finished job, which its sweeper optimises.

    Args:
        record: record of the job.
        paths: entries of summary.json ("success_after.rate"), or metrics, whose last logged value
            is used ("eval/success_once"); none: the success rate after training.

    Returns:
        one number, or a tuple for several paths; None if `paths` is empty and the success rate was
        not measured.

    Raises:
        JobFailedError: the job is not done.
        ConfigError: the summary and the metrics have no such number.
    """
    if record.state != "done":
        raise JobFailedError(f"job {record.number} {record.label}: {record.error or record.state}")
    file = Path(record.folder) / SUMMARY
    if not paths and not file.is_file():
        return None
    numbers = (leaf for leaf in leaves(read_mapping(file)) if isinstance(leaf[1], (int, float)))
    available = {path: float(value) for path, value in numbers}
    available |= _last_metrics(Path(record.folder), paths)
    values = tuple(available.get(path) for path in paths or (SUCCESS,))
    if not paths and values[0] is None:
        return None
    for path, value in zip(paths, values, strict=False):
        if value is None:
            raise ConfigError(
                f"sweep.objective: {file} has no number {path!r}{choices_message(path, available)}"
            )
    objectives = tuple(value for value in values if value is not None)
    return objectives if len(objectives) > 1 else objectives[0]


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


def _last_metrics(run: Path, names: Sequence[str]) -> dict[str, float]:
    """Return the last logged value of each metric in `names` that was logged."""
    last_values: dict[str, float] = {}
    if any(METRIC in name for name in names):
        with damaged_on(run / METRICS):
            for line in read_text(run / METRICS).splitlines():
                values = as_type(dict[str, Any], json.loads(line))
                last_values |= {name: value for name, value in values.items() if name in names}
    return last_values


def _error(log: Path, code: int) -> str:
    """Return why a job failed.

    That is the signal that killed it, other than SIGINT and SIGTERM, or else the last error that it
    printed, its last line of output, or its exit code.
    """
    if code < 0 and -code not in (signal.SIGINT, signal.SIGTERM):
        return f"killed by {signal.Signals(-code).name}"
    text = strip_control(
        log.read_bytes()[-ERROR_TAIL_BYTES:].decode(errors="replace").replace("\r", "\n")
    )
    errors = re.findall(r"^error: (.*?)(?=^  hint: |\Z)", text, re.MULTILINE | re.DOTALL)
    lines = [line for line in text.splitlines() if line.strip()]
    return errors[-1].strip() if errors else lines[-1] if lines else f"exit code {code}"
