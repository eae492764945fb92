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
from rlcore_sweeps import room, table
from rlcore_sweeps.composing import composed_if
from rlcore_sweeps.job import Note, Playing, handed_on, objective_of
from rlcore_sweeps.live import Board
from rlcore_sweeps.player import Player
from rlcore_sweeps.request import SUBDIR, listed

ALIKE = "runner.seed="  # jobs that differ only in the seed need the same resources
LOOK = 0.1  # seconds between two polls of the jobs


@dataclass
class Entry:
    """A job of the batch.

    Attributes:
        note: the job's note.
        hydra: Hydra's configuration of the job.
        sweep: the sweep's folder.
        words: arguments of `rlcore`.
        config: configuration of a job with the same needs; None if it does not compose.
    """

    note: Note
    hydra: DictConfig
    sweep: Path
    words: tuple[str, ...] = ()
    config: RunConfig | None = None


def launch(
    config: DictConfig,
    context: HydraContext,
    player: TaskFunction,
    parallel: str | int,
    job_overrides: Sequence[Sequence[str]],
    first: int,
) -> list[JobReturn]:
    """Run the jobs of a batch in parallel; a failed job does not stop the others.

    Args:
        config, context, player: the arguments of Hydra's `Launcher.setup`.
        parallel: see :func:`rlcore_sweeps.room.find_share`.
        job_overrides: overrides of each job.
        first: number of the first job.

    Returns:
        the result of each job, in order: its objective, or the error of a failed job.

    Raises:
        ConfigError: the task is not a run of rlcore, two jobs would share a folder, or `parallel`
            is invalid.
    """
    if not isinstance(player, Player):
        raise ConfigError(
            "hydra/launcher=rlcore plays runs of rlcore only", hint="rlcore train ... -m"
        )
    entries = [
        _entry(config, context.config_loader, player, first + number, overrides)
        for number, overrides in enumerate(job_overrides)
    ]
    if len({entry.note.folder for entry in entries}) < len(entries):
        raise ConfigError(
            f"{SUBDIR} gives several jobs one folder", hint=f"{SUBDIR}='job-${{hydra.job.num}}'"
        )
    waiting = deque(entry for entry in entries if entry.note.state != "done")
    alike: dict[tuple[str, ...], RunConfig | None] = {}
    for entry in waiting:
        entry.note, entry.words = player.command(entry.note, entry.sweep)
        kind = tuple(word for word in entry.note.words if not word.startswith(ALIKE))
        if alike.get(kind) is None:
            alike[kind] = composed_if(entry.words)
        entry.config = alike[kind]
    if waiting:
        sweep = waiting[0].sweep
        configs = [entry.config for entry in waiting if entry.config is not None]
        share = room.find_share(sweep, parallel, configs)
        for entry in waiting:
            if entry.note.state == "not started":
                entry.note.write(sweep)
        table.write(sweep)
        _play(context, player, waiting, share, first + len(entries))
        table.write(sweep)
    returns = [_returned(entry, player) for entry in entries]
    for entry, returned in zip(entries, returns, strict=True):
        context.callbacks.on_job_end(config=entry.hydra, job_return=returned)
    return returns


def _play(
    context: HydraContext,
    player: Player,
    waiting: deque[Entry],
    share: room.Share,
    total: int,
) -> None:
    free = deque(room.slots(share))
    playing: list[tuple[Entry, Playing, room.Slot]] = []
    with Board(total).shown() as board:
        try:
            while waiting or playing:
                while waiting and free:
                    entry, slot = waiting.popleft(), free.popleft()
                    context.callbacks.on_job_start(config=entry.hydra, task_function=player)
                    playing.append((entry, _start(entry, share, slot), slot))
                    board.say(playing[-1][1].note)
                ended = [one for one in playing if not one[1].going()]
                for one in ended:
                    playing.remove(one)
                    one[0].note = one[1].ended()
                    free.append(one[2])
                    board.say(one[0].note)
                    table.write(one[0].sweep)
                board.update([one for _, one, _ in playing], total - len(waiting) - len(playing))
                if not ended:
                    time.sleep(LOOK)
        except BaseException as error:
            _end([one for _, one, _ in playing], error)
            raise


def _end(playing: Sequence[Playing], error: BaseException) -> None:
    """Forward a signal to all jobs and wait until they end; kill them at a second signal."""
    for one in playing:
        one.tell(handed_on(error))
    try:
        for one in playing:
            one.wait()
    finally:
        for one in playing:
            one.tell(signal.SIGKILL)
            one.ended(interrupted=True)


def _entry(
    master: DictConfig, loader: ConfigLoader, player: Player, number: int, overrides: Sequence[str]
) -> Entry:
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
    note, sweep = player.note(config.hydra, folder)
    return Entry(note, config, sweep)


def _start(entry: Entry, share: room.Share, slot: room.Slot) -> Playing:
    """Start a job on the cores and accelerators of a slot."""
    words = entry.words
    threads = entry.config and room.threads_of(entry.config, share)
    if threads and words[0] != "resume":
        words = (*words, f"cluster.torch_threads={threads}")
    env = {**os.environ, **{k: str(v) for k, v in entry.hydra.hydra.job.env_set.items()}}
    if slot.devices is not None:
        env["CUDA_VISIBLE_DEVICES"] = ",".join(slot.devices)
    note = replace(entry.note, state="running", error="")
    return Playing.start(note, entry.sweep, words, cores=slot.cores, env=env)


def _returned(entry: Entry, player: Player) -> JobReturn:
    task = listed(entry.hydra.hydra.overrides.task)
    returned = JobReturn(
        overrides=task,
        cfg=OmegaConf.create(),
        hydra_cfg=entry.hydra,
        working_dir=os.getcwd(),
        task_name=str(entry.hydra.hydra.job.name),
    )
    try:
        returned.return_value = objective_of(entry.note, player.objective)
        returned.status = JobStatus.COMPLETED
    except UserError as error:
        returned.return_value = error
        returned.status = JobStatus.FAILED
    return returned
