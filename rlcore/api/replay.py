"""Change the configuration of a run so that one of its episodes is played again in this process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rlcore.config.schema import RunConfig
from rlcore.contracts.errors import PlacementError, PluginError

if TYPE_CHECKING:
    from rlcore.training.play_episode import Phase

ONE_PROCESS = (
    "cluster.backend=local",
    "cluster.num_nodes=1",
    "cluster.address=null",
    "cluster.node_groups=[]",
    "cluster.component_placement={env: all:0, rollout: all:0, actor: all:0}",
    "rollout.pipeline_stage_num=1",
    "env.train.total_num_envs=1",
    "env.eval.total_num_envs=1",
)
"""Overrides that leave one env and one worker of each kind, all in this process."""


def simulator_overrides(config: RunConfig) -> Iterator[str]:
    """Yield overrides by which simulators run in this process.

    A simulator that needs another interpreter gets one process.
    """
    for side, settings in config.env.sides.items():
        yield f"env.{side}.num_processes={0 if settings.interpreter() is None else 1}"


def rounding_overrides(config: RunConfig, phase: Phase) -> list[str]:
    """Return overrides by which actions are rounded as in the run.

    The forward batch gets as many rows as in a stage of the run, of which the replay uses one, and
    torch as many threads. Otherwise actions would differ from those of the evaluated episode in the
    last bits, and contacts would amplify the difference.

    The list is empty if the run's placement is not possible on this machine, because the sizes are
    unknown then.

    Args:
        config: configuration of the run.
        phase: whether the replayed episode is one of an evaluation or of training.
    """
    from rlcore.placement import Inventory, make_plan

    try:
        plan = make_plan(config.cluster, Inventory.local())
    except (PlacementError, PluginError):
        return []
    stages = plan.world_size("env") * config.rollout.pipeline_stage_num
    env = config.env.sides[phase]
    rows = config.rollout.forward_batch or max(1, env.total_num_envs // stages)
    threads = config.cluster.torch_threads or plan.cores(plan.allocations("rollout")[0])
    return [f"rollout.forward_batch={rows}", f"cluster.torch_threads={threads}"]
