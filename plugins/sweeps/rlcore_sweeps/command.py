"""`rlcore sweep VERB ...`, which `rlcore VERB ... -m` is short for, and `rlcore resume SWEEP`.

words --> the configuration of Hydra --> its sweeper --batches of words--> its launcher --> jobs

A sweeper says which jobs there are, a launcher where they run: ours, Hydra's, or those of others.
"""

from __future__ import annotations

import shlex
import shutil
import sys
import tempfile
import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hydra import version
from hydra._internal.callbacks import Callbacks
from hydra.core.hydra_config import HydraConfig
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, JobRuntime, JobStatus, setup_globals
from hydra.errors import HydraException
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rlcore.checks import places
from rlcore.cli.main import main as rlcore
from rlcore.config.catalog import named_recipe
from rlcore.config.compose import yaml_below
from rlcore.config.overrides import quote
from rlcore.config.schema import LoggerConfig, RunConfig
from rlcore.contracts.errors import ConfigError, UserError
from rlcore.files import lock
from rlcore.runs.folder import SWEEP_TABLE, RunFolder
from rlcore.utils.stdio import tolerate_broken_output
from rlcore.utils.text import shorten
from rlcore_sweeps import table
from rlcore_sweeps.job import JobFailedError, JobRecord, require_writable_files
from rlcore_sweeps.job_config import compose_job, try_compose_job
from rlcore_sweeps.loader import SweepLoader
from rlcore_sweeps.recipe import with_recipe
from rlcore_sweeps.request import (
    CFG,
    CONFIG_NAME,
    DIR,
    FILE,
    MULTIRUN,
    PACKAGE,
    JobChoices,
    SweepRequest,
    key_of,
    override_list,
    quote_text_values,
    to_hydra,
    to_rlcore,
    with_split,
)
from rlcore_sweeps.safe_overrides import is_safe
from rlcore_sweeps.task import JobTask

LAUNCHER = ("hydra/launcher", "hydra.launcher.")
SHOWN = 200  # characters of an argument that an error message shows
HARMLESS_FLAGS = (*CONFIG_NAME, "-v", "--verbose", "--verify", "--trust", "--format")
"""Flags that a sweep's folder may contain. A resume passes `--trust` on only if it is given again.
"""
VERBS = ("train", "eval", "sft", "collect")
BASIC = "hydra._internal.core_plugins.basic_sweeper.BasicSweeper"
OWN_PLUGINS = ("hydra_plugins.hydra_rlcore_", "hydra._internal.")
"""Prefixes of the launchers and sweepers that rlcore and Hydra bring."""
DIGITS = 3  # of a job's number, if the sweeper decides how many jobs there are
LIST_EXAMPLES = (
    "a=1,2,3 or a=range(1,4) or a=choice(x,y); a sweeper of another kind: hydra/sweeper=NAME"
)
SHOW_SETTINGS = "rlcore train --cfg hydra -p hydra.launcher (or .sweeper)"
EXAMPLE = "rlcore sweep train quickstart runner.seed=0,1,2"


def main(arguments: Sequence[str]) -> int:
    """Run or resume a sweep, or print its configuration (`--cfg`); return the exit code.

    Args:
        arguments: a verb and its arguments, or "resume" and the sweep's folder.
    """
    if not arguments or arguments[0] in ("-h", "--help"):
        print(f"{EXAMPLE}\nrlcore train ... -m is short for it; --help of the verb has its keys")
        return 0
    version.setbase("1.3")
    with tolerate_broken_output():
        if arguments[0] == "resume":
            return _resume(arguments[1:])
        request = with_recipe(SweepRequest.parse(arguments))
        if (cfg_values := request.values(*CFG)) and cfg_values[-1] != "job":
            multirun = not {*MULTIRUN}.isdisjoint(arguments)
            return _show(request, whole=cfg_values[-1] == "all", multirun=multirun)
        return _run_and_report(request)


def run_sweep(
    verb: str, words: Sequence[str], *, config_dirs: Sequence[str | Path] = ()
) -> list[Path]:
    """Run a sweep as the command does; return the folders of the runs that succeeded.

    Args:
        verb: the command that each job runs, e.g. "train".
        words: arguments of the sweep.
        config_dirs: the user's folders of config groups.

    Raises:
        UserError: see :func:`rlcore.api.sweep`.
    """
    version.setbase("1.3")
    folders = [f"--config-dir={folder}" for folder in config_dirs]
    place, _ = _run_in_folder(with_recipe(SweepRequest.parse([verb, *folders, *words])))
    _print_table(place)
    return [
        Path(record.folder)
        for record in JobRecord.load_all(place)
        if record.state == "done" and record.folder
    ]


def _show(request: SweepRequest, *, whole: bool, multirun: bool) -> int:
    """Print the configuration that Hydra's plugins see (`--cfg hydra`); return the exit code.

    Args:
        whole: also print the configurations of the jobs (`--cfg all`).
        multirun: print the configuration of a sweep in place of that of a single run.
    """
    setup_globals()
    JobRuntime.instance().set("name", request.verb)
    mode = RunMode.MULTIRUN if multirun else RunMode.RUN
    first = ["hydra.job.num=0", "hydra.job.id='0'", *request.hydra]
    loader = SweepLoader(request.config_dirs, typed=request.typed.union(first[:2]))
    config = loader.load_configuration(None, [*first, *to_hydra(request.words)], mode)
    text = OmegaConf.to_yaml(config, resolve="--resolve" in request.flags)
    (package,) = request.values(*PACKAGE)[-1:] or (None,)
    if not whole or (package or "").startswith("hydra"):
        print(yaml_below(text, package), end="")
        return 0
    print(text if package is None else "", end="")
    flags = tuple(
        "job" if flag == "all" else flag.replace("=all", "=job") for flag in request.flags
    )
    request = replace(request, flags=flags)
    return _run_and_report(request) if multirun else rlcore([request.verb, *flags, *request.words])


def _resume(arguments: Sequence[str]) -> int:
    """Resume the jobs of a sweep that are not done; return the exit code.

    Raises:
        UserError: no sweep is named, an argument would change its jobs, or its folder would load
            code and `--trust` is not given.
    """
    trust, words = "--trust" in arguments, [word for word in arguments if word != "--trust"]
    for word in words:
        if word in MULTIRUN:
            raise ConfigError("rlcore resume accepts one run or one sweep at a time")
    changes = SweepRequest.parse(["resume", *words])
    if len(changes.flags) != 1 or changes.words:
        rejected = [*changes.words, *changes.flags[1:]]
        raise ConfigError(
            "a sweep is resumed with its own arguments: "
            f"{' '.join(rejected) or 'its folder is missing'}",
            hint="rlcore resume SWEEP [sweep.parallel=N] [--trust]",
        )
    folder = Path(changes.flags[0]).expanduser().absolute()
    request = SweepRequest.load(folder)
    if not trust:
        _require_plain(request, folder)
    flags = tuple(flag for flag in request.flags if flag != "--trust")
    flags = (*flags, "--trust") if trust and "--trust" in request.flags else flags
    replaced = {key_of(word) for word in changes.hydra} | {DIR}
    hydra = [word for word in request.hydra if key_of(word) not in replaced]
    typed = frozenset(changes.hydra).union(hydra if trust else ())
    return _run_and_report(
        replace(request, flags=flags, hydra=(*hydra, *changes.hydra), typed=typed),
        folder,
        untrusted=not trust,
    )


def _require_plain(request: SweepRequest, folder: Path) -> None:
    """Reject a sweep's folder that decides which code is loaded.

    The overrides of the jobs are checked job by job (:meth:`rlcore_sweeps.task.JobTask.command`).

    Raises:
        ConfigError: an override of Hydra's keys, an interpolation, a flag or a verb could run code.
    """
    rejected = [word for word in request.hydra if not is_safe(word)]
    rejected += [word for word in request.words if "${" in word]
    rejected += [flag for flag in request.flags if not _is_harmless(flag)]
    rejected += [] if request.verb in VERBS else [request.verb]
    if rejected:
        raise ConfigError(
            f"{folder / FILE} holds {shorten(rejected[0], SHOWN)}, which can run any code",
            hint="--trust, if you trust the author of the folder",
        )


def _is_harmless(flag: str) -> bool:
    """Return whether a flag or a flag's value cannot make rlcore read a folder of configurations.

    A flag must be in :data:`HARMLESS_FLAGS`; a value must not name a recipe by its file.
    """
    name, _, value = flag.partition("=") if flag.startswith("-") else ("", "", flag)
    return (not name or name in HARMLESS_FLAGS) and (not value or not named_recipe(value)[1])


def _run_and_report(
    request: SweepRequest, folder: Path | None = None, *, untrusted: bool = False
) -> int:
    """Run a sweep in `folder`, or in a new one, and print its table; return the exit code."""
    place, failed = _run_in_folder(request, folder, untrusted=untrusted)
    return max(int(failed), 0 if request.is_preview else _print_table(place))


def _run_in_folder(
    request: SweepRequest, folder: Path | None = None, *, untrusted: bool = False
) -> tuple[Path, bool]:
    """Run a sweep.

    Args:
        folder: folder of a sweep to resume; None: create a new one.
        untrusted: the arguments come from a folder that the user does not trust.

    Returns:
        the sweep's folder, and whether a job failed.

    Raises:
        UserError: the sweep cannot run. A new folder is removed again if no job has started.
    """
    setup_globals()
    JobRuntime.instance().set("name", request.verb)
    words = to_hydra(request.words)
    loader = SweepLoader(request.config_dirs, typed=request.typed)
    first = loader.load_configuration(None, list(request.hydra), RunMode.MULTIRUN)
    hydra = [
        word for word in request.hydra if not (request.is_preview and word.startswith(LAUNCHER))
    ]
    searches = first.hydra.sweeper._target_ != BASIC
    if searches or request.split:
        words = with_split(words, *(request.split or ("validation",)))
    choices = JobChoices.parse(words)
    config = _config_of_job(request, choices)
    if config is not None:
        words = quote_text_values(words, config)
        choices = JobChoices.parse(words)
    digits = DIGITS if searches else len(str(max(0, choices.count - 1)))
    loader = replace(loader, fixed=choices.fixed, digits=digits)
    task = JobTask(request.verb, request.flags, request.objective, choices.fixed, untrusted)
    requested = folder or _requested_folder(request, choices, first, config)
    with tempfile.TemporaryDirectory() as scratch:
        if request.is_preview:
            task = replace(task, preview_folder=requested)
            hydra.append("hydra/launcher=basic")
            place = Path(scratch)
        else:
            place = folder or _create_folder(requested, is_named=DIR in map(key_of, hydra))
        alone = not any(place.iterdir())
        hydra = [word for word in hydra if key_of(word) != DIR]
        where = f"{DIR}={quote(place)}"
        loader = replace(loader, typed=loader.typed | {where})
        with lock.locked(place, required=False):
            try:
                require_writable_files(place)
                if not request.is_preview:
                    request.write(place)
                    table.write(place)
                failed = _run_hydra(
                    loader, task, [*hydra, where, *words], announce=not request.is_preview
                )
            except UserError:
                if folder is None and not JobRecord.load_all(
                    place
                ):  # no job has started: nothing to resume
                    (place / FILE).unlink(missing_ok=True)
                    if alone:  # a folder that the user named may hold other files
                        shutil.rmtree(place)
                raise
        return place, failed


def _run_hydra(loader: SweepLoader, task: JobTask, words: list[str], *, announce: bool) -> bool:
    """Run the sweep through Hydra's sweeper and launcher; return whether a job failed.

    Args:
        words: all overrides, of Hydra's keys and of the jobs.
        announce: print the table when the user interrupts the sweep.

    Raises:
        ConfigError: Hydra or one of its plugins rejects the overrides, or a third-party plugin
            raises an error.
    """
    config = loader.load_configuration(None, words, RunMode.MULTIRUN)
    HydraConfig.instance().set_config(config)
    callbacks = Callbacks(config)
    callbacks.on_multirun_start(config=config, config_name=None)
    context = HydraContext(config_loader=loader, callbacks=callbacks)
    sweeper = None
    try:
        sweeper = Plugins.instance().instantiate_sweeper(
            hydra_context=context, task_function=task, config=config
        )
        patient = None
        is_basic = config.hydra.sweeper._target_ == BASIC  # Hydra loads its class a second time
        if is_basic and sweeper.launcher is not None:
            sweeper.launcher = patient = TolerantLauncher(sweeper.launcher)
        sweeper.sweep(arguments=override_list(config.hydra.overrides.task))
    except (HydraException, OmegaConfBaseException, ImportError) as error:
        if sweeper is None:
            raise ConfigError(f"Hydra: {error}", hint=f"{SHOW_SETTINGS} shows settings") from error
        raise ConfigError(f"{type(sweeper).__name__}: {error}", hint=LIST_EXAMPLES) from error
    except JobFailedError:
        return True
    except UserError:
        raise
    except Exception as error:
        others = [str(config.hydra[part]._target_) for part in ("sweeper", "launcher")]
        others = [target for target in others if not target.startswith(OWN_PLUGINS)]
        if not others:
            raise
        where = traceback.extract_tb(error.__traceback__)[-1]
        raise ConfigError(
            f"{' or '.join(others)} failed: {type(error).__name__}: {error} "
            f"({where.filename}, line {where.lineno})",
            hint="this seems to be a bug of that plugin; please report it to its authors",
        ) from error
    except KeyboardInterrupt:
        if announce:
            _print_table(Path(str(config.hydra.sweep.dir)))
        raise
    callbacks.on_multirun_end(config=config, config_name=None)
    return patient is not None and patient.failed


class TolerantLauncher(Launcher):
    """A launcher that hides failed jobs from Hydra's basic sweeper, which would stop after them.

    Args:
        launcher: the launcher that runs the jobs.

    Attributes:
        failed: whether a job has failed.
    """

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher
        self.failed = False

    def setup(self, **parts: object) -> None:
        """Do nothing: the wrapped launcher is set up already."""

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        """Run a batch of jobs; return the results of those that succeeded.

        Raises:
            ConfigError: the batch is empty, the launcher returned another number of results, or a
                job failed because of the sweep's own settings.
        """
        if not job_overrides:
            raise ConfigError(
                "the sweep has no job: no option matches the pattern, or the range is empty",
                hint=LIST_EXAMPLES,
            )
        returns = self._launcher.launch(job_overrides, initial_job_idx)
        if len(returns) != len(job_overrides):
            raise ConfigError(
                f"{type(self._launcher).__name__} ran {len(job_overrides)} jobs and returned "
                f"{len(returns)} results",
                hint="this seems to be a bug of that launcher; please report it to its authors",
            )
        for job_return in returns:
            if isinstance(
                job_return._return_value, ConfigError
            ):  # raised by the sweep, not by the run
                raise job_return._return_value
        succeeded = [
            job_return for job_return in returns if job_return.status == JobStatus.COMPLETED
        ]
        self.failed |= len(succeeded) < len(returns)
        return succeeded


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
    swept = {key_of(word) for word in request.words} - set(map(key_of, choices.fixed))
    name = "sweep" if "experiment" in swept else logger.experiment_name
    return Path(logger.log_path).absolute() / name


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
            if (
                choices.count and error.message in messages
            ):  # count 0: the sweeper expands a pattern
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


def _print_table(sweep: Path) -> int:
    """Write and print the table, and print the failures on stderr; return the exit code."""
    table.write(sweep)
    width = min(table.WIDTH, shutil.get_terminal_size().columns) if sys.stdout.isatty() else None
    text, failures = (
        table.text(sweep, width or table.WIDTH),
        table.failures(JobRecord.load_all(sweep)),
    )
    print(f"{text.removesuffix(failures)}written to {sweep / SWEEP_TABLE}", flush=True)
    print(failures, end="", file=sys.stderr)
    return 1 if failures else 0
