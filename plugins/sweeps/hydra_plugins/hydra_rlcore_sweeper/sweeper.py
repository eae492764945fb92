"""`hydra/sweeper=rlcore_optuna`. Hydra imports this with every configuration, so what it does is
imported when it is used. It runs the module before that is known by its name, so annotations must
be real types: no `from __future__ import annotations`."""

from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from rlcore.contracts.errors import ConfigError


@dataclass
class RlcoreOptunaConf:
    """Its settings.

    Attributes:
        n_trials: settings that are tried.
        batch_size: trials that are proposed together, so that they can be played side by side.
        seeds: `runner.seed` of the runs of a trial; none: one run, with the recipe's.
        direction: of the objective: maximize or minimize.
        sampler, sampler_options: who proposes, and settings of Optuna's class.
        pruner, pruner_options: who ends runs early; none: nobody.
        seed: of the sampler.
        params: what is searched, by key, where no word says it.
    """

    _target_: str = "hydra_plugins.hydra_rlcore_sweeper.sweeper.RlcoreOptunaSweeper"
    n_trials: int = 20
    batch_size: int = 2
    seeds: list[int] = field(default_factory=list)
    direction: str = "maximize"
    sampler: str = "tpe"
    sampler_options: dict[str, Any] = field(default_factory=dict)
    pruner: str = "median"
    pruner_options: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    params: dict[str, Any] = field(default_factory=dict)


ConfigStore.instance().store(
    group="hydra/sweeper", name="rlcore_optuna", node=RlcoreOptunaConf, provider="rlcore"
)


class RlcoreOptunaSweeper(Sweeper):
    """Searches; see :class:`RlcoreOptunaConf` for its settings."""

    def __init__(self, **settings: Any) -> None:
        self.settings = settings

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Keep what Hydra hands over."""
        self.hydra_context, self.task_function, self.config = hydra_context, task_function, config

    def sweep(self, arguments: list[str]) -> None:
        """Play the study that the words describe.

        Raises:
            ConfigError: Optuna is not installed.
        """
        if find_spec("optuna") is None:
            raise ConfigError("there is no Optuna here", hint='pip install "rlcore[optuna]"')
        from rlcore_sweeps.search import sweep

        assert self.config is not None and self.hydra_context is not None  # after setup
        sweep(self.config, self.hydra_context, self.task_function, self.settings, arguments)
