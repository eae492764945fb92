"""Implement `hydra/launcher=rlcore`: run a batch of jobs in parallel on this machine."""

from __future__ import annotations

import os
import signal
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hydra.core.config_loader import ConfigLoader
from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import JobReturn, JobStatus
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict, read_write

from rlcore.config.schema import RunConfig
from rlcore.contracts.errors import ConfigError, UserError
from rlcore_sweeps import resources, table
from rlcore_sweeps.job import JobRecord, RunningJob, forwarded_signal, objective_of
from rlcore_sweeps.job_config import try_compose_job
from rlcore_sweeps.progress import ProgressTable
from rlcore_sweeps.request import SUBDIR, override_list
from rlcore_sweeps.task import JobTask

SEED_PREFIX = "runner.seed="  # jobs that differ only in the seed need the same resources
POLL_S = 0.1  # seconds between two polls of the jobs


@dataclass
class BatchJob:
    """A job of the batch.

    Attributes:
        note: the job's note.
        hydra: Hydra's configuration of the job.
        sweep: the sweep's folder.
        words: arguments of `rlcore`.
        config: configuration of a job with the same needs; None if it does not compose.
    """

    record: JobRecord
    hydra: DictConfig
    sweep: Path
    words: tuple[str, ...] = ()
    config: RunConfig | None = None


def launch(
    config: DictConfig,
    context: HydraContext,
    task: TaskFunction,
    parallel: str | int,
    job_overrides: Sequence[Sequence[str]],
    first: int,
) -> list[JobReturn]:
    """Run the jobs of a batch in parallel; a failed job does not stop the others.

    Args:
        config, context, task: the arguments of Hydra's `Launcher.setup`.
        parallel: see :func:`rlcore_sweeps.resources.find_share`.
        job_overrides: overrides of each job.
        first: number of the first job.

    Returns:
        the result of each job, in order: its objective, or the error of a failed job.

    Raises:
        ConfigError: the task is not a run of rlcore, two jobs would share a folder, or `parallel`
            is invalid.
    """
    if not isinstance(task, JobTask):
        raise ConfigError(
            "hydra/launcher=rlcore plays runs of rlcore only", hint="rlcore train ... -m"
        )
    entries = [
        _batch_job(config, context.config_loader, task, first + number, overrides)
        for number, overrides in enumerate(job_overrides)
    ]
    if len({entry.record.folder for entry in entries}) < len(entries):
        raise ConfigError(
            f"{SUBDIR} gives several jobs one folder", hint=f"{SUBDIR}='job-${{hydra.job.num}}'"
        )
    waiting = deque(entry for entry in entries if entry.record.state != "done")
    config_by_needs: dict[tuple[str, ...], RunConfig | None] = {}
    for entry in waiting:
        entry.record, entry.words = task.command(entry.record, entry.sweep)
        needs = tuple(word for word in entry.record.words if not word.startswith(SEED_PREFIX))
        if config_by_needs.get(needs) is None:
            config_by_needs[needs] = try_compose_job(entry.words)
        entry.config = config_by_needs[needs]
    if waiting:
        sweep = waiting[0].sweep
        configs = [entry.config for entry in waiting if entry.config is not None]
        share = resources.find_share(sweep, parallel, configs)
        for entry in waiting:
            if entry.record.state == "not started":
                entry.record.write(sweep)
        table.write(sweep)
        _run_jobs(context, task, waiting, share, first + len(entries))
        table.write(sweep)
    returns = [_job_return(entry, task) for entry in entries]
    for entry, returned in zip(entries, returns, strict=True):
        context.callbacks.on_job_end(config=entry.hydra, job_return=returned)
    return returns


def _run_jobs(
    context: HydraContext,
    task: JobTask,
    waiting: deque[BatchJob],
    share: resources.Share,
    total: int,
) -> None:
    free = deque(resources.slots(share))
    running: list[tuple[BatchJob, RunningJob, resources.Slot]] = []
    with ProgressTable(total).shown() as board:
        try:
            while waiting or running:
                while waiting and free:
                    entry, slot = waiting.popleft(), free.popleft()
                    context.callbacks.on_job_start(config=entry.hydra, task_function=task)
                    running.append((entry, _start(entry, share, slot), slot))
                    board.print_line(running[-1][1].record)
                ended = [one for one in running if not one[1].going()]
                for one in ended:
                    running.remove(one)
                    one[0].record = one[1].ended()
                    free.append(one[2])
                    board.print_line(one[0].record)
                    table.write(one[0].sweep)
                board.update([one for _, one, _ in running], total - len(waiting) - len(running))
                if not ended:
                    time.sleep(POLL_S)
        except BaseException as error:
            _stop_jobs([one for _, one, _ in running], error)
            raise


def _stop_jobs(running: Sequence[RunningJob], error: BaseException) -> None:
    """Forward a signal to all jobs and wait until they end; kill them at a second signal."""
    for one in running:
        one.signal(forwarded_signal(error))
    try:
        for one in running:
            one.wait()
    finally:
        for one in running:
            one.signal(signal.SIGKILL)
            one.ended(interrupted=True)


def _batch_job(
    master: DictConfig, loader: ConfigLoader, task: JobTask, number: int, overrides: Sequence[str]
) -> BatchJob:
    """Compose a job's configuration, set it as :class:`HydraConfig`, and find the job's note."""
    config = loader.load_sweep_config(master, list(overrides))
    with open_dict(config):
        config.hydra.job.id = str(number)
        config.hydra.job.num = number
    HydraConfig.instance().set_config(config)
    folder = os.path.abspath(
        os.path.join(
            str(OmegaConf.select(config, "hydra.sweep.dir")),
            str(OmegaConf.select(config, "hydra.sweep.subdir")),
        )
    )
    with read_write(config.hydra.runtime), open_dict(config.hydra.runtime):
        config.hydra.runtime.output_dir = folder
    record, sweep = task.record(config.hydra, folder)
    return BatchJob(record, config, sweep)


def _start(entry: BatchJob, share: resources.Share, slot: resources.Slot) -> RunningJob:
    """Start a job on the cores and accelerators of a slot."""
    words = entry.words
    threads = entry.config and resources.threads_of(entry.config, share)
    if threads and words[0] != "resume":
        words = (*words, f"cluster.torch_threads={threads}")
    env = {**os.environ, **{k: str(v) for k, v in entry.hydra.hydra.job.env_set.items()}}
    if slot.devices is not None:
        env["CUDA_VISIBLE_DEVICES"] = ",".join(slot.devices)
    record = replace(entry.record, state="running", error="")
    return RunningJob.start(record, entry.sweep, words, cores=slot.cores, env=env)


def _job_return(entry: BatchJob, task: JobTask) -> JobReturn:
    returned = JobReturn(
        overrides=override_list(entry.hydra.hydra.overrides.task),
        cfg=OmegaConf.create(),
        hydra_cfg=entry.hydra,
        working_dir=os.getcwd(),
        task_name=str(entry.hydra.hydra.job.name),
    )
    try:
        returned.return_value = objective_of(entry.record, task.objective)
        returned.status = JobStatus.COMPLETED
    except UserError as error:
        returned.return_value = error
        returned.status = JobStatus.FAILED
    return returned
