"""What an update costs where actor processes hold copies, and where they divide the parameters."""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median

from parts.ours import training_order
from rlcore.config.compose import compose
from rlcore.training.assembly import assemble
from rlcore.training.gather import gather
from rlcore.workers.backend import make_group

LAYOUTS = {
    "one process": ("actor: 1", "no_shard"),
    "two, copies": ("actor: 0-1", "no_shard"),
    "two, divided": ("actor: 0-1", "shard_grad_op"),
}


@dataclass(frozen=True)
class Updates:
    """Medians of seconds, over the updates but the first."""

    update: float
    sync: float


def measure_updates(hidden: int, repeats: int) -> dict[str, Updates]:
    """By layout, of the toy policy with layers of that width, on the toy env."""
    return {name: _measured(hidden, repeats, *layout) for name, layout in LAYOUTS.items()}


def _measured(hidden: int, repeats: int, actors: str, strategy: str) -> Updates:
    assembly = assemble(
        compose(
            [
                "env=toy",
                "model=toy",
                "algorithm=ppo",
                f"actor.model.hidden={hidden}",
                "cluster.component_placement={env: 0, rollout: 0, " + actors + "}",
                f"actor.fsdp_config.sharding_strategy={strategy}",
                "cluster.torch_threads=1",
            ]
        )
    )
    updating, syncing = [], []
    with make_group(assembly.worker_specs) as group:
        group.start()
        for update in range(repeats + 1):
            gather(group, assembly, training_order(assembly, update))
            group.send_trajectory()
            begin = time.perf_counter()
            group.update(update)
            updating.append(time.perf_counter() - begin)
            begin = time.perf_counter()
            group.sync()
            syncing.append(time.perf_counter() - begin)
    return Updates(median(updating[1:]), median(syncing[1:]))


def table(found: dict[str, Updates]) -> list[str]:
    """A row for each layout: seconds, and how many times those of one process."""
    first = next(iter(found.values())).update
    return [
        "an update of      update              sync",
        *(
            f"  {name:<14}{one.update:8.3f} s{one.update / first:7.2f} x{one.sync:9.3f} s"
            for name, one in found.items()
        ),
    ]
