"""Run the jobs of a sweep one after another; print their results as a table, and write it beside
the runs. Knows nothing of how a job is run.

    logs/NAME/0-seed-1/  logs/NAME/1-seed-2/  ...  logs/NAME/sweep.txt

The file is rewritten after each job, so that after a kill it shows which jobs are done, which can
be resumed, and which never started.
"""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from rlcore.config.catalog import BY_RECIPE
from rlcore.config.schema import RunConfig
from rlcore.config.sweep import Job
from rlcore.contracts.errors import UserError

WIDTH = 160
Place = Callable[[RunConfig], RunConfig]
State = Literal["not started", "running", "done", "failed", "interrupted"]


@dataclass
class Outcome:
    """The result of a job.

    Attributes:
        job: the job.
        state: how far it got.
        folder: of its run; None before it has one.
        seconds: wall time.
        error: why it failed.
        figures: what its run's summary.json holds; empty if it has none.
    """

    job: Job
    state: State = "not started"
    folder: Path | None = None
    seconds: float | None = None
    error: str = ""
    figures: dict[str, Any] = field(default_factory=dict)


class Sweep:
    """Jobs of one command.

    Args:
        command: what a job is run by, e.g. `("rlcore", "train")`; its overrides follow.
        jobs: all of them, in order.
    """

    def __init__(self, command: Sequence[str], jobs: Sequence[Job]) -> None:
        self.command = tuple(command)
        self.outcomes = [Outcome(job) for job in jobs]
        self._parents: dict[tuple[str, str], Path] = {}

    def run(self, start: Callable[[Job, Place], None]) -> int:
        """Start each job; returns the exit code. One that fails for a reason of the user's does
        not stop the others; all failures are listed again at the end.

        Args:
            start: runs a job; hands its configuration to the second argument when all checks
                are passed, and uses what that returns.
        """
        try:
            for outcome in self.outcomes:
                self._run(outcome, start)
                self._write()
        finally:  # also on Ctrl-C, and where a bug ends it
            for outcome in self.outcomes:
                if outcome.state == "running":
                    outcome.state = "interrupted"
            self._write()
            if self._parents:
                written = ", ".join(map(str, self.files()))
                print(f"{self.text()}written to {written}", flush=True)
        errors = self._errors()
        print(errors, end="", file=sys.stderr)
        return 1 if errors else 0

    def _run(self, outcome: Outcome, start: Callable[[Job, Place], None]) -> None:
        job, began = outcome.job, time.monotonic()
        print(f"job {job.index} of {len(self.outcomes)}: {job.label}", flush=True)
        try:
            start(job, lambda config: self._place(outcome, config))
            outcome.state = "done"
        except UserError as problem:
            print(f"job {job.index} failed: {problem}", file=sys.stderr, flush=True)
            outcome.state, outcome.error = "failed", problem.message
        finally:
            if outcome.folder is not None:
                outcome.seconds = time.monotonic() - began
                outcome.figures = _figures(outcome.folder)

    def _place(self, outcome: Outcome, config: RunConfig) -> RunConfig:
        """The configuration with the job's folder, which nobody else has: the sweep's own folder
        is made by its first job, under a name that was free."""
        from rlcore.run_folder.folder import RunFolder

        logger = config.runner.logger
        wanted = str(Path(logger.experiment_name).parent)  # without the name of the job
        key = (logger.log_path, wanted)
        if key not in self._parents:
            self._parents[key] = RunFolder.create(logger.log_path, wanted).path
        parent = self._parents[key]
        outcome.folder, outcome.state = parent / outcome.job.name, "running"
        self._write()
        return outcome.job.place(config, str(parent.relative_to(Path(logger.log_path).absolute())))

    # -- what is printed -------------------------------------------------------------------

    def files(self) -> list[Path]:
        """Where the table goes: beside the runs, which lie in several folders where their place is
        swept; none before the first has one."""
        from rlcore.run_folder.folder import SWEEP

        return [parent / SWEEP for parent in self._parents.values()]

    def text(self) -> str:
        """The table, what its figures are not, and what to do next."""
        lines = (*_caveats(self.outcomes), *self._next())
        return _table(self.outcomes) + "".join(f"{line}\n" for line in lines)

    def _errors(self) -> str:
        failed = [outcome for outcome in self.outcomes if outcome.state == "failed"]
        if not failed:
            return ""
        lines = [f"  {one.job.index} {one.job.label}: {one.error}" for one in failed]
        return "\n".join([f"{len(failed)} of {len(self.outcomes)} jobs failed:", *lines, ""])

    def _next(self) -> list[str]:
        done = [outcome for outcome in self.outcomes if outcome.state == "done"]
        folders = [shlex.quote(str(parent)) for parent in self._parents.values()]
        lines = [f"compare them: rlcore report {' '.join(folders)}"] if len(done) > 1 else []
        for outcome in self.outcomes:
            job = outcome.job
            if outcome.state in ("running", "interrupted") and outcome.folder is not None:
                folder = shlex.quote(str(outcome.folder))
                lines.append(f"resume job {job.index}: rlcore resume {folder}")
            elif outcome.state == "not started" and self._parents:
                parent = next(iter(self._parents.values())).name
                own = f"runner.logger.experiment_name={parent}/{job.name}"
                first = [word.removeprefix(BY_RECIPE) for word in job.overrides[:1]]
                words = shlex.join([*self.command, *first, *job.overrides[1:], own])
                lines.append(f"run job {job.index} alone: {words}")
        return lines

    def _write(self) -> None:
        from rlcore.files.atomic import write_text

        for file in self.files():
            write_text(file, self.text() + self._errors())


def _figures(folder: Path) -> dict[str, Any]:
    from rlcore.results.summary import read_summary
    from rlcore.run_folder.folder import RunFolder

    try:
        figures = read_summary(RunFolder(folder).summary)
    except UserError:  # it did not finish, or is of a verb that measures nothing
        return {}
    return figures if isinstance(figures, dict) else {}


def _table(outcomes: Sequence[Outcome]) -> str:
    from rich.table import Table

    from rlcore.terminal.console import as_text

    table = Table(title="sweep", title_justify="left")
    for name in ("job", "swept", "before", "after", "difference", "seconds", "folder"):
        table.add_column(name, overflow="fold", justify="right" if name == "seconds" else "left")
    for outcome in outcomes:
        figures = outcome.figures
        folder = outcome.folder.name if outcome.folder is not None else ""
        table.add_row(
            str(outcome.job.index),
            outcome.job.label,
            _rate(figures.get("success_before")),
            _rate(figures.get("success_after")),
            _difference(figures.get("paired_difference")),
            "" if outcome.seconds is None else f"{outcome.seconds:.0f}",
            folder if outcome.state == "done" else f"{folder} {outcome.state}".strip(),
        )
    return as_text(table, width=WIDTH) + "\n"


def _caveats(outcomes: Sequence[Outcome]) -> list[str]:
    """List the limits of the figures, with the jobs if they do not hold for all."""
    measured = [outcome for outcome in outcomes if outcome.figures]
    jobs: dict[str, list[str]] = {}
    for outcome in measured:
        if "caveat" in outcome.figures:
            jobs.setdefault(outcome.figures["caveat"], []).append(str(outcome.job.index))
    return [
        said if len(its) == len(measured) else f"job {', '.join(its)}: {said}"
        for said, its in jobs.items()
    ]


def _rate(figures: dict[str, float] | None) -> str:
    if figures is None:
        return ""
    return "{rate:.3f} ({lo:.3f} .. {hi:.3f})".format(**figures)


def _difference(figures: dict[str, float] | None) -> str:
    if figures is None:
        return ""
    return "{mean:+.3f} ({lo:+.3f} .. {hi:+.3f})".format(**figures)
