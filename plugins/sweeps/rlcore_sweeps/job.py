"""Run one job of a sweep, a separate process of `rlcore VERB ...`, and store its state.

SWEEP/.jobs/0.log       output of the process; appended to RUN/output.txt when it ends
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil

from rlcore.config.overrides import quote
from rlcore.utils import signals
from rlcore.utils.text import strip_control
from rlcore_sweeps.job_record import JOBS, JobFailedError, JobRecord, State
from rlcore_sweeps.objective import is_finished
from rlcore_sweeps.pruning import JOB

OUTPUT = "output.txt"
JOB_PROCESS = ("-m", "rlcore_sweeps.job_process")
STOPPED_TIMEOUT_S = (
    60.0  # seconds that a job's process may be stopped (SIGSTOP) before it is killed
)
POLL_S = 1.0  # seconds between two checks for that
PREVIOUS_TIMEOUT_S = 60.0  # seconds to wait for a job that outlived its killed sweep
ERROR_TAIL_BYTES = 20000  # bytes at the end of a job's output that are searched for its error


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
