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
from rlcore_sweeps.job import RunningJob, forwarded_signal
from rlcore_sweeps.job_config import try_compose_job
from rlcore_sweeps.job_record import JobRecord
from rlcore_sweeps.objective import objective_of
from rlcore_sweeps.progress import ProgressTable
from rlcore_sweeps.request import SUBDIR, override_list
from rlcore_sweeps.task import JobTask

SEED_PREFIX = "runner.seed="  # jobs that differ only in the seed need the same resources
POLL_S = 0.1  # seconds between two polls of the jobs


@dataclass
class BatchJob:
    """A job of the batch.

    Attributes:
        record: the job's record.
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
            "hydra/launcher=rlcore runs jobs of rlcore only", hint="rlcore train ... -m"
        )
    jobs = [
        _batch_job(config, context.config_loader, task, first + number, overrides)
        for number, overrides in enumerate(job_overrides)
    ]
    if len({job.record.folder for job in jobs}) < len(jobs):
        raise ConfigError(
            f"{SUBDIR} gives several jobs the same folder",
            hint=f"{SUBDIR}='job-${{hydra.job.num}}'",
        )
    waiting = deque(job for job in jobs if job.record.state != "done")
    config_by_needs: dict[tuple[str, ...], RunConfig | None] = {}
    for job in waiting:
        job.record, job.words = task.command(job.record, job.sweep)
        needs = tuple(word for word in job.record.words if not word.startswith(SEED_PREFIX))
        if config_by_needs.get(needs) is None:
            config_by_needs[needs] = try_compose_job(job.words)
        job.config = config_by_needs[needs]
    if waiting:
        sweep = waiting[0].sweep
        configs = [job.config for job in waiting if job.config is not None]
        share = resources.find_share(sweep, parallel, configs)
        for job in waiting:
            if job.record.state == "not started":
                job.record.write(sweep)
        table.write(sweep)
        _run_jobs(context, task, waiting, share, first + len(jobs))
        table.write(sweep)
    returns = [_job_return(job, task) for job in jobs]
    for job, returned in zip(jobs, returns, strict=True):
        context.callbacks.on_job_end(config=job.hydra, job_return=returned)
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
    with ProgressTable(total).drawn() as progress:
        try:
            while waiting or running:
                while waiting and free:
                    job = waiting.popleft()
                    slot = free.popleft()
                    context.callbacks.on_job_start(config=job.hydra, task_function=task)
                    process = _start(job, share, slot)
                    running.append((job, process, slot))
                    progress.print_line(process.record)
                ended = [entry for entry in running if not entry[1].going()]
                for entry in ended:
                    running.remove(entry)
                    job, process, slot = entry
                    job.record = process.ended()
                    free.append(slot)
                    progress.print_line(job.record)
                    table.write(job.sweep)
                processes = [process for _, process, _ in running]
                progress.update(processes, total - len(waiting) - len(running))
                if not ended:
                    time.sleep(POLL_S)
        except BaseException as error:
            _stop_jobs([process for _, process, _ in running], error)
            raise


def _stop_jobs(running: Sequence[RunningJob], error: BaseException) -> None:
    """Forward a signal to all jobs and wait until they end; kill them at a second signal."""
    for job in running:
        job.signal(forwarded_signal(error))
    try:
        for job in running:
            job.wait()
    finally:
        for job in running:
            job.signal(signal.SIGKILL)
            job.ended(interrupted=True)


def _batch_job(
    master: DictConfig, loader: ConfigLoader, task: JobTask, number: int, overrides: Sequence[str]
) -> BatchJob:
    """Compose a job's configuration, set it as :class:`HydraConfig`, and find the job's record."""
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


def _start(job: BatchJob, share: resources.Share, slot: resources.Slot) -> RunningJob:
    """Start a job on the cores and accelerators of a slot."""
    words = job.words
    threads = job.config and resources.threads_of(job.config, share)
    if threads and words[0] != "resume":
        words = (*words, f"cluster.torch_threads={threads}")
    env = {**os.environ, **{k: str(v) for k, v in job.hydra.hydra.job.env_set.items()}}
    if slot.devices is not None:
        env["CUDA_VISIBLE_DEVICES"] = ",".join(slot.devices)
    record = replace(job.record, state="running", error="")
    return RunningJob.start(record, job.sweep, words, cores=slot.cores, env=env)


def _job_return(job: BatchJob, task: JobTask) -> JobReturn:
    returned = JobReturn(
        overrides=override_list(job.hydra.hydra.overrides.task),
        cfg=OmegaConf.create(),
        hydra_cfg=job.hydra,
        working_dir=os.getcwd(),
        task_name=str(job.hydra.hydra.job.name),
    )
    try:
        returned.return_value = objective_of(job.record, task.objective)
        returned.status = JobStatus.COMPLETED
    except UserError as error:
        returned.return_value = error
        returned.status = JobStatus.FAILED
    return returned
