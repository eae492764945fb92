"""Play a job where a launcher of Hydra has put it: the task function of all of them."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from rlcore.config.catalog import BY_RECIPE
from rlcore.contracts.errors import ConfigError
from rlcore.process import signals
from rlcore_sweeps.composing import require_closed
from rlcore_sweeps.job import JobFailed, Note, Playing, command_of, objective_of, play, settled
from rlcore_sweeps.request import SUBDIR, for_job, listed

Objective = float | tuple[float, ...] | None


@dataclass(frozen=True)
class Player:
    """A task function that can be pickled.

    Attributes:
        verb, flags, objective: of the :class:`rlcore_sweeps.request.Order`.
        fixed: words that are the same in all jobs.
        wary: whether the words come from a folder, so that they may not let code in.
        shown: for a look at the jobs: the folder that they would be in; None: they are played.
        runs: the run that each job evaluates, by its number; none: the words say all.
        label: of its jobs; empty: what tells their words apart.
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
        """Play the job that Hydra has made current; returns its objective.

        Raises:
            JobFailed: it failed, or was killed.
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
        """See :func:`rlcore_sweeps.job.command_of`.

        Raises:
            UserError: its words let code in, and are not the user's.
        """
        run = self.runs[note.number : note.number + 1]
        note, words = command_of(note, self.verb, (*run, *self.flags))
        if self.wary and words[0] == self.verb:
            require_closed(words, sweep)
        return note, words

    def note(self, hydra: DictConfig, folder: str) -> tuple[Note, Path]:
        """The note on a job, as an earlier attempt has left it, and the sweep's folder. One whose
        run is not there any more is not done.

        Args:
            hydra: the part `hydra` of its configuration.
            folder: the place that it is given.

        Raises:
            ConfigError: this number was another job's, or the place is not in the sweep's folder.
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
        from rlcore.cli.main import main

        assert self.shown is not None
        Path(note.folder).rmdir()
        place = self.shown / Path(note.folder).relative_to(sweep)
        _, command = command_of(replace(note, folder=str(place)), self.verb, self.flags)
        print(f"job {note.number}: {note.label.replace(BY_RECIPE, '')}", flush=True)
        code = main(command)
        if code > signals.exit_code(0):  # Hydra goes on after any other error
            raise KeyboardInterrupt
        if code != 0:
            raise JobFailed(f"job {note.number} {note.label}")
