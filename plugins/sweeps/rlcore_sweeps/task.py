"""Define the task function that every launcher of Hydra calls to run a job."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from rlcore.config.catalog import BY_RECIPE
from rlcore.contracts.errors import ConfigError
from rlcore.utils import signals
from rlcore_sweeps.composing import require_closed
from rlcore_sweeps.job import JobFailed, Note, Playing, command_of, objective_of, play, settled
from rlcore_sweeps.request import SUBDIR, for_job, listed

Objective = float | tuple[float, ...] | None


@dataclass(frozen=True)
class Player:
    """A task function that can be pickled, because launchers send it to other processes.

    Attributes:
        verb, flags, objective: as in :class:`rlcore_sweeps.request.Order`.
        fixed: overrides that are the same in all jobs.
        wary: the overrides come from a folder that is not trusted, so they must not load code.
        shown: print the jobs without running them, as they would be in this folder; None: run them.
        runs: path of the run that each job evaluates, by job number; empty: jobs name none.
        label: label of the jobs; empty: the overrides in which they differ.
    """

    verb: str
    flags: tuple[str, ...] = ()
    objective: tuple[str, ...] = ()
    fixed: frozenset[str] = frozenset()
    wary: bool = False
    shown: Path | None = None
    runs: tuple[str, ...] = ()
    label: str = ""

    def __call__(self, config: DictConfig) -> Objective:
        """Run the job of the current :class:`HydraConfig`; return its objective.

        A job that is done is not run again.

        Raises:
            JobFailed: the job failed or was killed.
        """
        hydra: Any = HydraConfig.get()
        note, sweep = self.note(hydra, hydra.runtime.output_dir)
        if self.shown is not None:
            self._show(note, sweep)
            return None
        if note.state == "done":
            return objective_of(note, self.objective)
        note, command = self.command(note, sweep)
        note = play(Playing.start(replace(note, state="running"), sweep, command))
        return objective_of(note, self.objective)

    def command(self, note: Note, sweep: Path) -> tuple[Note, tuple[str, ...]]:
        """Return a job's note and command, see :func:`rlcore_sweeps.job.command_of`.

        Raises:
            UserError: the sweep's folder is not trusted, and the job's overrides would load code.
        """
        run = self.runs[note.number : note.number + 1]
        note, words = command_of(note, self.verb, (*run, *self.flags))
        if self.wary and words[0] == self.verb:
            require_closed(words, sweep)
        return note, words

    def note(self, hydra: DictConfig, folder: str) -> tuple[Note, Path]:
        """Return a job's note, from an earlier attempt if there is one, and the sweep's folder.

        A job is not done if the folder of its run no longer exists.

        Args:
            hydra: the section `hydra` of the job's configuration.
            folder: the folder that the sweep assigned to the job.

        Raises:
            ConfigError: another job had this number, or `folder` is outside the sweep's folder.
            CheckpointError: the note is damaged.
            JobFailed: a process of an earlier attempt still runs.
        """
        sweep = Path(str(hydra.sweep.dir)).absolute()
        if sweep not in Path(os.path.abspath(folder)).parents:
            raise ConfigError(
                f"{SUBDIR} leads out of the sweep's folder: {folder}",
                hint=f"{SUBDIR}='job-${{hydra.job.num}}'",
            )
        words = tuple(for_job(listed(hydra.overrides.task)))
        number = int(hydra.job.num)
        before = Note.of(sweep, number)
        if before is not None and before.words:
            if before.words != words:
                raise ConfigError(
                    f"job {number} of {sweep} was {before.label}, and is another one now",
                    hint="a sweep that chooses its jobs by chance can't be resumed; start it anew "
                    "in another folder",
                )
            if before.folder:
                now = settled(before)
                if now != before:
                    now.write(sweep)
                return now, sweep
            state = "not started" if before.state == "done" else before.state
            return replace(before, state=state, folder=str(Path(folder).absolute())), sweep
        swept = [word for word in listed(hydra.overrides.task) if word not in self.fixed]
        label = self.label or ",".join(for_job(swept))
        return Note(number, words, label, str(Path(folder).absolute())), sweep

    def _show(self, note: Note, sweep: Path) -> None:
        """Run the job's command, whose flags ask for a dry run or for its configuration."""
        from rlcore.cli.main import main

        assert self.shown is not None
        Path(note.folder).rmdir()
        place = self.shown / Path(note.folder).relative_to(sweep)
        _, command = command_of(replace(note, folder=str(place)), self.verb, self.flags)
        print(f"job {note.number}: {note.label.replace(BY_RECIPE, '')}", flush=True)
        code = main(command)
        if code > signals.exit_code(0):  # ended by a signal; Hydra would continue after JobFailed
            raise KeyboardInterrupt
        if code != 0:
            raise JobFailed(f"job {note.number} {note.label}")
