"""Run a sweep's jobs through Hydra: its sweeper proposes batches of jobs, its launcher runs them.

Both may be third-party plugins, whose errors become errors that name them.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hydra._internal.callbacks import Callbacks
from hydra.core.hydra_config import HydraConfig
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, JobStatus
from hydra.errors import HydraException
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, RunMode
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from rlcore.contracts.errors import ConfigError, UserError
from rlcore_sweeps.job_record import JobFailedError
from rlcore_sweeps.loader import SweepLoader
from rlcore_sweeps.request import override_list
from rlcore_sweeps.task import JobTask

BASIC = "hydra._internal.core_plugins.basic_sweeper.BasicSweeper"
OWN_PLUGINS = ("hydra_plugins.hydra_rlcore_", "hydra._internal.")
"""Prefixes of the launchers and sweepers that rlcore and Hydra bring."""
REJECTIONS = (HydraException, OmegaConfBaseException, ImportError)
"""Errors by which Hydra and its plugins reject their settings or overrides."""
LIST_EXAMPLES = (
    "a=1,2,3 or a=range(1,4) or a=choice(x,y); a sweeper of another kind: hydra/sweeper=NAME"
)
SHOW_SETTINGS = "rlcore train --cfg hydra -p hydra.launcher (or .sweeper)"


def run_hydra(loader: SweepLoader, task: JobTask, words: list[str]) -> bool:
    """Run a sweep through Hydra's sweeper and launcher; return whether a job failed.

    Args:
        words: all overrides, of Hydra's keys and of the jobs.

    Raises:
        ConfigError: Hydra or one of its plugins rejects the overrides, or a third-party plugin
            raises an error.
    """
    config = loader.load_configuration(None, words, RunMode.MULTIRUN)
    HydraConfig.instance().set_config(config)
    callbacks = Callbacks(config)
    callbacks.on_multirun_start(config=config, config_name=None)
    context = HydraContext(config_loader=loader, callbacks=callbacks)
    tolerant = None
    with _naming_faulty_plugins(config):
        try:
            sweeper: Any = Plugins.instance().instantiate_sweeper(
                hydra_context=context, task_function=task, config=config
            )
        except REJECTIONS as error:
            raise ConfigError(f"Hydra: {error}", hint=f"{SHOW_SETTINGS} shows settings") from error
        is_basic = config.hydra.sweeper._target_ == BASIC  # Hydra loads its class a second time
        if is_basic and sweeper.launcher is not None:
            sweeper.launcher = tolerant = TolerantLauncher(sweeper.launcher)
        try:
            sweeper.sweep(arguments=override_list(config.hydra.overrides.task))
        except JobFailedError:
            return True
        except REJECTIONS as error:
            raise ConfigError(f"{type(sweeper).__name__}: {error}", hint=LIST_EXAMPLES) from error
    callbacks.on_multirun_end(config=config, config_name=None)
    return tolerant is not None and tolerant.failed


@contextmanager
def _naming_faulty_plugins(config: DictConfig) -> Iterator[None]:
    """Turn unexpected errors of third-party sweepers and launchers into errors that name them.

    Args:
        config: Hydra's configuration, which chooses them.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        targets = [str(config.hydra[part]._target_) for part in ("sweeper", "launcher")]
        others = [target for target in targets if not target.startswith(OWN_PLUGINS)]
        if not others:
            raise
        where = traceback.extract_tb(error.__traceback__)[-1]
        raise ConfigError(
            f"{' or '.join(others)} failed: {type(error).__name__}: {error} "
            f"({where.filename}, line {where.lineno})",
            hint="this seems to be a bug of that plugin; please report it to its authors",
        ) from error


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
        succeeded = [result for result in returns if result.status == JobStatus.COMPLETED]
        for result in returns:
            if isinstance(result._return_value, ConfigError):  # of the sweep, not of the run
                raise result._return_value
        self.failed |= len(succeeded) < len(returns)
        return succeeded
