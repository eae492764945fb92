"""Register `hydra/sweeper=rlcore_optuna`.

Hydra imports this module with every configuration, so the implementation is imported on use. The
module is executed before it is in `sys.modules`, so the dataclass needs real types as annotations:
no `from __future__ import annotations`.
"""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig
from rlcore_sweeps.study_settings import StudySettings

from rlcore.contracts.errors import ConfigError
from rlcore.plugins.extras import install_command


@dataclass
class RlcoreOptunaConf(StudySettings):
    """Settings of the sweeper: those of the study, and the class that Hydra instantiates."""

    _target_: str = "hydra_plugins.hydra_rlcore_sweeper.sweeper.RlcoreOptunaSweeper"


ConfigStore.instance().store(
    group="hydra/sweeper", name="rlcore_optuna", node=RlcoreOptunaConf, provider="rlcore"
)


class RlcoreOptunaSweeper(Sweeper):
    """A sweeper that runs a study; see :class:`RlcoreOptunaConf` for its settings."""

    def __init__(self, **settings: Any) -> None:
        self.settings = settings

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Store the arguments for :meth:`sweep`."""
        self.hydra_context = hydra_context
        self.task_function = task_function
        self.config = config

    def sweep(self, arguments: list[str]) -> None:
        """Run the study that the overrides describe.

        Raises:
            ConfigError: Optuna is not installed.
        """
        if find_spec("optuna") is None:
            raise ConfigError(
                "hydra/sweeper=rlcore_optuna needs Optuna, which is not installed",
                hint=install_command(["optuna"]),
            )
        from rlcore_sweeps.search import sweep

        assert self.config is not None and self.hydra_context is not None  # after setup
        sweep(self.config, self.hydra_context, self.task_function, self.settings, arguments)
