"""Play runs side by side, one a core, and go on with what an earlier call has left.

A run's command stands beside its folder, in NAME.command. If it is still the same, the run goes on
there: training resumes from its last checkpoint, supervised training from its last complete round.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from parts.learning.cells import START, Records, digest, measured
from parts.learning.runs import Table
from rlcore.api import open_run
from rlcore.contracts.errors import CheckpointError, UserError
from rlcore.files.atomic import write_text
from rlcore.files.lock import locked

POLL_S = 0.5
PREVIOUS_TIMEOUT_S = 120.0
"""Longest time for the run of a killed call to write its checkpoint and end."""
ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}


@dataclass(frozen=True)
class Job:
    """A run of a table."""

    table: Table
    run: str

    @property
    def place(self) -> Path:
        """Folder of the run."""
        return self.table.place(self.run)

    def __str__(self) -> str:
        return f"{self.table.name} {self.place.name}"


def cores() -> list[int]:
    """Return the numbers of the cores that this process may use."""
    process = psutil.Process()
    if psutil.LINUX:
        return list(process.cpu_affinity())
    return list(range(psutil.cpu_count() or 1))


def play(
    tables: Sequence[Table],
    wanted: Sequence[str],
    records: Records,
    *,
    on_end: Callable[[Job], None],
) -> list[Job]:
    """Play what the tables miss, and keep each cell as its run ends; return the runs that failed.

    What needs the weights of a failed run is not played.

    Args:
        tables: tables in the order in which they are to be completed.
        wanted: arms and controls.
        records: the finished cells.
        on_end: called after the cells of a run were kept.
    """
    free = cores()
    running: dict[int, tuple[Job, subprocess.Popen[bytes]]] = {}
    failed: list[Job] = []
    try:
        while True:
            for job in _ready(tables, wanted, records):
                if not free or job in failed or job in [each for each, _ in running.values()]:
                    continue
                try:
                    process = begin_job(job, records, free[0])
                except UserError as error:
                    failed.append(job)
                    _say(f"{job}: {error}")
                else:
                    running[free.pop(0)] = job, process
            if not running:
                return failed
            while not (ended := [core for core in running if running[core][1].poll() is not None]):
                time.sleep(POLL_S)
            for core in ended:
                job, process = running.pop(core)
                free.append(core)
                try:
                    fault = _conclude(job, process.returncode, wanted, records)
                except UserError as error:
                    fault = str(error)
                if fault is not None:
                    failed.append(job)
                    _say(f"{job}: {fault}")
                else:
                    _say(f"{job}: finished")
                    on_end(job)
    finally:  # of an interrupt: the runs write their checkpoints
        for _, process in running.values():
            process.terminate()
        for _, process in running.values():
            process.wait()


def _ready(tables: Sequence[Table], wanted: Sequence[str], records: Records) -> list[Job]:
    return [Job(table, run) for table in tables for run in table.next_runs(wanted, records)]


def begin_job(job: Job, records: Records, core: int) -> subprocess.Popen[bytes]:
    """Begin a run on a core, or go on with it."""
    words = job.table.command(job.run, records)
    place = job.place
    place.parent.mkdir(parents=True, exist_ok=True)
    _wait_for_previous(place)
    command = place.with_suffix(".command")
    same = command.is_file() and command.read_text() == shlex.join(words) + "\n"
    finished = same and (place / "summary.json").is_file()
    resumes = same and (place / "config.yaml").is_file() and not finished
    if not finished and not resumes:
        shutil.rmtree(place, ignore_errors=True)
        write_text(command, shlex.join(words) + "\n")
    _say(f"{job}: {'was finished' if finished else f'on core {core}'}")
    if resumes:
        words = ["resume", str(place)]
    program = ["-c", ""] if finished else ["-m", "rlcore_sweeps.job_process"]
    arguments = [sys.executable, *program, str(os.getpid()), str(core), *words]
    with place.with_suffix(".log").open("ab") as log:
        return subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, **ONE_THREAD},
            start_new_session=True,  # a second signal, Ctrl-C itself, would end it without one
        )


def _wait_for_previous(place: Path) -> None:
    """Wait until the process that an earlier call began, and that ends with it, has left a run.

    Raises:
        CheckpointError: another process is still writing to the run.
    """
    until = time.monotonic() + PREVIOUS_TIMEOUT_S
    while place.is_dir():
        try:
            with locked(place, required=False):
                return
        except CheckpointError:
            if time.monotonic() > until:
                raise
        time.sleep(POLL_S)


def _conclude(job: Job, code: int, wanted: Sequence[str], records: Records) -> str | None:
    """Keep the cells of a run that has ended; return what is wrong, None if nothing is.

    A run whose cells are still missing would otherwise be begun again without end.
    """
    if code != 0 or not (job.place / "summary.json").is_file():
        return f"failed, see {job.place.with_suffix('.log')}"
    _keep(job, records)
    if job.run in job.table.next_runs(wanted, records):
        return f"its cells are still missing with what {job.place} has measured"
    return None


def _keep(job: Job, records: Records) -> None:
    """Write the records of a finished run's cells."""
    table = job.table
    weights = digest(table.place(START) / "sft")
    run = open_run(job.place)
    for cell in table.cells(job.run):
        record = measured(
            cell, run, commit=records.commit, start=weights, overrides=table.overrides
        )
        records.write(cell, record)


def _say(text: str) -> None:
    print(time.strftime("%H:%M:%S"), text, flush=True)
