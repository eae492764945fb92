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
from rlcore_sweeps.job import RunningJob, command_of, wait_for, with_final_state
from rlcore_sweeps.job_config import require_no_code
from rlcore_sweeps.job_record import JobFailedError, JobRecord
from rlcore_sweeps.objective import objective_of
from rlcore_sweeps.request import SUBDIR, override_list, to_rlcore

Objective = float | tuple[float, ...] | None


@dataclass(frozen=True)
class JobTask:
    """A task function that can be pickled, because launchers send it to other processes.

    Attributes:
        verb, flags, objective: as in :class:`rlcore_sweeps.request.SweepRequest`.
        fixed: overrides that are the same in all jobs.
        untrusted: the overrides come from a folder that is not trusted, so they must not load code.
        preview_folder: print the jobs, as they would be in this folder, in place of running them;
            None: run them.
        runs: path of the run that each job evaluates, by job number; empty: jobs name none.
        label: label of the jobs; empty: the overrides in which they differ.
    """

    verb: str
    flags: tuple[str, ...] = ()
    objective: tuple[str, ...] = ()
    fixed: frozenset[str] = frozenset()
    untrusted: bool = False
    preview_folder: Path | None = None
    runs: tuple[str, ...] = ()
    label: str = ""

    def __call__(self, config: DictConfig) -> Objective:
        """Run the job of the current :class:`HydraConfig`; return its objective.

        A job that is done is not run again.

        Raises:
            JobFailedError: the job failed or was killed.
        """
        hydra: Any = HydraConfig.get()
        record, sweep = self.record(hydra, hydra.runtime.output_dir)
        if self.preview_folder is not None:
            self._preview(record, sweep)
            return None
        if record.state == "done":
            return objective_of(record, self.objective)
        record, command = self.command(record, sweep)
        record = wait_for(RunningJob.start(replace(record, state="running"), sweep, command))
        return objective_of(record, self.objective)

    def command(self, record: JobRecord, sweep: Path) -> tuple[JobRecord, tuple[str, ...]]:
        """Return a job's record and command, see :func:`rlcore_sweeps.job.command_of`.

        Raises:
            UserError: the sweep's folder is not trusted, and the job's overrides would load code.
        """
        run = self.runs[record.number : record.number + 1]
        record, words = command_of(record, self.verb, (*run, *self.flags))
        if self.untrusted and words[0] == self.verb:
            require_no_code(words, sweep)
        return record, words

    def record(self, hydra: DictConfig, folder: str) -> tuple[JobRecord, Path]:
        """Return a job's record, from an earlier attempt if there is one, and the sweep's folder.

        A job is not done if the folder of its run no longer exists.

        Args:
            hydra: the section `hydra` of the job's configuration.
            folder: the folder that the sweep assigned to the job.

        Raises:
            ConfigError: another job had this number, or `folder` is outside the sweep's folder.
            CheckpointError: the record is damaged.
            JobFailedError: a process of an earlier attempt still runs.
        """
        sweep = Path(str(hydra.sweep.dir)).absolute()
        if sweep not in Path(os.path.abspath(folder)).parents:
            raise ConfigError(
                f"{SUBDIR} is outside the sweep's folder: {folder}",
                hint=f"{SUBDIR}='job-${{hydra.job.num}}'",
            )
        words = tuple(to_rlcore(override_list(hydra.overrides.task)))
        number = int(hydra.job.num)
        previous = JobRecord.load(sweep, number)
        if previous is not None and previous.words:
            if previous.words != words:
                raise ConfigError(
                    f"job {number} of {sweep} was {previous.label}, and is now another job",
                    hint="a sweep whose sweeper proposes other jobs each time can't be resumed; "
                    "start it again in another folder",
                )
            if previous.folder:
                current = with_final_state(previous)
                if current != previous:
                    current.write(sweep)
                return current, sweep
            state = "not started" if previous.state == "done" else previous.state
            return replace(previous, state=state, folder=str(Path(folder).absolute())), sweep
        swept = [word for word in override_list(hydra.overrides.task) if word not in self.fixed]
        label = self.label or ",".join(to_rlcore(swept))
        return JobRecord(number, words, label, str(Path(folder).absolute())), sweep

    def _preview(self, record: JobRecord, sweep: Path) -> None:
        """Run the job's command, whose flags ask for a dry run or for its configuration."""
        from rlcore.cli.main import main

        assert self.preview_folder is not None
        Path(record.folder).rmdir()
        place = self.preview_folder / Path(record.folder).relative_to(sweep)
        _, command = command_of(replace(record, folder=str(place)), self.verb, self.flags)
        print(f"job {record.number}: {record.label.replace(BY_RECIPE, '')}", flush=True)
        code = main(command)
        if code > signals.exit_code(
            0
        ):  # ended by a signal; Hydra would continue after JobFailedError
            raise KeyboardInterrupt
        if code != 0:
            raise JobFailedError(f"job {record.number} {record.label}")
