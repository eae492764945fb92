"""Run a sweep in its folder: create the folder, and give Hydra the overrides of the jobs."""

from __future__ import annotations

import shlex
import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from hydra.core.utils import JobRuntime, setup_globals
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rlcore.checks import places
from rlcore.config.catalog import COMPONENT_GROUPS, EXPERIMENT
from rlcore.config.compose import shared_name
from rlcore.config.overrides import quote
from rlcore.config.schema import LoggerConfig, RunConfig
from rlcore.contracts.errors import ConfigError, UserError
from rlcore.files import lock
from rlcore.runs.folder import RunFolder
from rlcore_sweeps import table
from rlcore_sweeps.hydra_run import BASIC, run_hydra
from rlcore_sweeps.job_config import compose_job, try_compose_job
from rlcore_sweeps.job_record import JobRecord, require_writable_files
from rlcore_sweeps.loader import SweepLoader
from rlcore_sweeps.request import (
    DIR,
    FILE,
    JobChoices,
    SweepRequest,
    key_of,
    quote_text_values,
    to_hydra,
    to_rlcore,
    with_split,
)
from rlcore_sweeps.task import JobTask

LAUNCHER = ("hydra/launcher", "hydra.launcher.")
NAME = "runner.logger.experiment_name"
UNNAMED = "sweep"
"""Name of a sweep whose jobs have nothing in common that could name it."""
DIGITS = 3  # of a job's number, if the sweeper decides how many jobs there are


@dataclass(frozen=True)
class PreparedSweep:
    """What Hydra needs to run a sweep.

    Attributes:
        loader: composes the configurations that Hydra's plugins see.
        task: runs one job.
        hydra: overrides of Hydra's own keys, but for the sweep's folder.
        words: overrides of the jobs, in Hydra's grammar.
        folder: the folder that the sweep asks for, which may exist already.
        is_named: whether the user named that folder, so that no other one will do.
    """

    loader: SweepLoader
    task: JobTask
    hydra: tuple[str, ...]
    words: tuple[str, ...]
    folder: Path
    is_named: bool

    def run(self, place: Path) -> bool:
        """Run the sweep in a folder; return whether a job failed."""
        where = f"{DIR}={quote(place)}"
        loader = replace(self.loader, typed=self.loader.typed | {where})
        return run_hydra(loader, self.task, [*self.hydra, where, *self.words])


def run_in_folder(
    request: SweepRequest, folder: Path | None = None, *, untrusted: bool = False
) -> tuple[Path, bool]:
    """Run a sweep, or print its jobs if it is a preview.

    Args:
        folder: folder of a sweep to resume; None: create a new one.
        untrusted: the arguments come from a folder that the user does not trust.

    Returns:
        the sweep's folder, and whether a job failed.

    Raises:
        UserError: the sweep cannot run. A new folder is removed again if no job has started.
    """
    sweep = _prepare(request, folder, untrusted=untrusted)
    if request.is_preview:
        with tempfile.TemporaryDirectory() as scratch:
            return Path(scratch), sweep.run(Path(scratch))
    place = folder or _create_folder(sweep.folder, is_named=sweep.is_named)
    was_empty = not any(place.iterdir())
    with lock.locked(place, required=False):
        try:
            require_writable_files(place)
            request.write(place)
            table.write(place)
            return place, sweep.run(place)
        except KeyboardInterrupt:
            table.print_table(place)
            raise
        except UserError:
            if folder is None and not JobRecord.load_all(place):  # there is nothing to resume
                (place / FILE).unlink(missing_ok=True)
                if was_empty:  # a folder that the user named may hold other files
                    shutil.rmtree(place)
            raise


def _prepare(request: SweepRequest, folder: Path | None, *, untrusted: bool) -> PreparedSweep:
    """Translate a request for Hydra; the arguments are those of :func:`run_in_folder`."""
    setup_globals()
    JobRuntime.instance().set("name", request.verb)
    words = to_hydra(request.words)
    loader = SweepLoader(request.config_dirs, typed=request.typed)
    of_hydra = loader.load_configuration(None, list(request.hydra), RunMode.MULTIRUN)
    searches = of_hydra.hydra.sweeper._target_ != BASIC
    if searches or request.split:
        words = with_split(words, *(request.split or ("validation",)))
    choices = JobChoices.parse(words)
    config = _config_of_job(request, choices)
    if config is not None:
        words = quote_text_values(words, config)
        choices = JobChoices.parse(words)
    task = JobTask(request.verb, request.flags, request.objective, choices.fixed, untrusted)
    requested = folder or _requested_folder(request, choices, of_hydra, config)
    hydra = [word for word in request.hydra if key_of(word) != DIR]
    if request.is_preview:
        task = replace(task, preview_folder=requested)
        hydra = [word for word in hydra if not word.startswith(LAUNCHER)]
        hydra.append("hydra/launcher=basic")
    digits = DIGITS if searches else len(str(max(0, choices.count - 1)))
    return PreparedSweep(
        loader=replace(loader, fixed=choices.fixed, digits=digits),
        task=task,
        hydra=tuple(hydra),
        words=tuple(words),
        folder=requested,
        is_named=DIR in map(key_of, request.hydra),
    )


def _requested_folder(
    request: SweepRequest, choices: JobChoices, hydra: DictConfig, config: RunConfig | None
) -> Path:
    """Return the folder that the sweep asks for, which may exist already.

    That is `hydra.sweep.dir` if it is set, or else the folder that a run of its jobs would get.

    Args:
        hydra: Hydra's configuration.
        config: configuration of a job; None if none composes.

    Raises:
        ConfigError: the run's logger settings or `hydra.sweep.dir` name no usable folder.
    """
    for message in places.folder_faults(config) if config else ():
        if message.startswith("runner.logger."):  # these keys are the same in all jobs
            raise ConfigError(message)
    if DIR in map(key_of, request.hydra):
        try:
            return Path(str(OmegaConf.select(hydra, DIR))).expanduser().absolute()
        except (OmegaConfBaseException, RuntimeError) as error:
            raise ConfigError(
                f"{DIR}: {str(error).partition(chr(10))[0]}",
                hint="it may interpolate keys below hydra. only, not those of a run",
            ) from None
    logger = LoggerConfig() if config is None else config.runner.logger
    name = logger.experiment_name if config is None else _shared_name(request, choices, config)
    return Path(logger.log_path).absolute() / name


def _shared_name(request: SweepRequest, choices: JobChoices, config: RunConfig) -> str:
    """Return the name of a sweep: that of a run of its jobs, without what differs between them.

    Args:
        config: configuration of a job.
    """
    given = {key_of(word) for word in request.words}
    groups = {key.split("/")[0] for key in given - set(map(key_of, choices.fixed))}
    if NAME in given or groups.isdisjoint((EXPERIMENT, *COMPONENT_GROUPS)):
        return config.runner.logger.experiment_name
    return shared_name(config, groups) or UNNAMED


def _config_of_job(request: SweepRequest, choices: JobChoices) -> RunConfig | None:
    """Return the configuration of one job.

    The first and the last job are tried, then the overrides that all jobs share; None if none of
    these composes.

    Raises:
        UserError: the first and the last job fail with the same message.
    """
    messages = set[str]()
    for words in (choices.first, choices.last):
        try:
            return compose_job([request.verb, *request.flags, *to_rlcore(words)])
        except UserError as error:
            # count 0: the sweeper expands a pattern
            if choices.count and error.message in messages:
                raise
            messages.add(error.message)
    fixed = [word for word in choices.first if word in choices.fixed]
    return try_compose_job([request.verb, *request.flags, *to_rlcore(fixed)])


def _create_folder(requested: Path, *, is_named: bool) -> Path:
    """Create a sweep's folder.

    Args:
        requested: the folder; if it is taken, another name is used.
        is_named: the user named the folder, so exactly this one is used.

    Raises:
        ConfigError: the named folder cannot be created or already holds a sweep.
    """
    if not is_named:
        return RunFolder.create(requested.parent, requested.name).path
    try:
        requested.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{DIR}: can't make {requested}: {error.strerror}") from None
    if (requested / FILE).is_file():
        folder = shlex.quote(str(requested))
        raise ConfigError(
            f"{requested} holds a sweep already",
            hint=f"rlcore resume {folder} continues it; for a new one: {DIR}=FOLDER",
        )
    return requested
