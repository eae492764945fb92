"""Register `hydra/launcher=rlcore`.

Hydra imports this module with every configuration, so the implementation is imported on use. The
module is executed before it is in `sys.modules`, so the dataclass needs real types as annotations:
no `from __future__ import annotations`.
"""

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
    """Settings of the launcher.

    Attributes:
        parallel: number of jobs that run at once; "auto": as many as fit on this machine.
    """

    _target_: str = "hydra_plugins.hydra_rlcore_launcher.launcher.RlcoreLauncher"
    parallel: Any = "auto"


ConfigStore.instance().store(
    group="hydra/launcher", name="rlcore", node=RlcoreLauncherConf, provider="rlcore"
)


class RlcoreLauncher(Launcher):
    """A launcher that runs jobs in parallel, each in its own process on its own cores."""

    def __init__(self, parallel: str | int = "auto") -> None:
        self.parallel = parallel

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Store the arguments for :meth:`launch`."""
        self.hydra_context = hydra_context
        self.task_function = task_function
        self.config = config

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        """Run the jobs; return their results in order."""
        from rlcore_sweeps.parallel import launch

        return launch(
            self.config,
            self.hydra_context,
            self.task_function,
            self.parallel,
            job_overrides,
            initial_job_idx,
        )
