"""`hydra/launcher=rlcore`. Hydra imports this with every configuration, so what it does is imported
when it is used. It runs the module before that is known by its name, so annotations must be real
types: no `from __future__ import annotations`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


@dataclass
class RlcoreLauncherConf:
    """Its settings.

    Attributes:
        parallel: jobs at once; "auto": as many as this machine has room for.
    """

    _target_: str = "hydra_plugins.hydra_rlcore_launcher.launcher.RlcoreLauncher"
    parallel: Any = "auto"


ConfigStore.instance().store(
    group="hydra/launcher", name="rlcore", node=RlcoreLauncherConf, provider="rlcore"
)


class RlcoreLauncher(Launcher):
    """Plays jobs side by side, each in a process of its own on cores of its own."""

    def __init__(self, parallel: str | int = "auto") -> None:
        self.parallel = parallel

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Keep what Hydra hands over."""
        self.hydra_context, self.task_function, self.config = hydra_context, task_function, config

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        """Play the jobs; returns what they came to, in their order."""
        from rlcore_sweeps.parallel import launch

        return launch(
            self.config, self.hydra_context, self.task_function, self.parallel,
            job_overrides, initial_job_idx,
        )  # fmt: skip
