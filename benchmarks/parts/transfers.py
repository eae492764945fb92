"""Seconds of a weight sync by size and way, on workers of a run.

One group of workers for each size: what is sent is the same, only the routes are exchanged.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt
from statistics import median

from rlcore.config.compose import compose
from rlcore.placement.routes import WeightRoute, plan_weight_routes
from rlcore.training.assembly import Assembly, assemble
from rlcore.workers.backend import make_group

TRANSPORTS = ("object_store", "broadcast")
APART = "cluster.component_placement={env: 0, rollout: 0, actor: 1}"


@dataclass(frozen=True)
class Transfer:
    """A policy's weights on their way to one rollout worker of the same machine.

    Attributes:
        bytes: sent.
        seconds: median by way.
    """

    bytes: int
    seconds: dict[str, float]


def measure_transfer(size: int, repeats: int) -> Transfer:
    """Of a policy with about `size` bytes of weights; ways take turns."""
    # two layers of the toy policy are small; the one between them has hidden x hidden numbers
    assembly = assemble(
        compose(
            [
                "env=toy",
                "model=toy",
                "algorithm=ppo",
                f"actor.model.hidden={isqrt(size // 4)}",
                APART,
                "cluster.timeouts.start=1000",
                "cluster.torch_threads=1",
            ]
        )
    )
    taken: dict[str, list[float]] = {way: [] for way in TRANSPORTS}
    with make_group(assembly.worker_specs) as group:
        group.start()
        for number in range(repeats + 1):
            for way in TRANSPORTS:
                group.routes = _routes(assembly, way)
                begin = time.perf_counter()
                group.sync()
                if number:  # the first one forms groups, and touches memory for the first time
                    taken[way].append(time.perf_counter() - begin)
    return Transfer(
        assembly.policy_spec.parameters * 4,
        {way: median(seconds) for way, seconds in taken.items()},
    )


def _routes(assembly: Assembly, way: str) -> tuple[WeightRoute, ...]:
    allocations = assembly.placement.allocations
    return plan_weight_routes(allocations("actor"), allocations("rollout"), sync=way)


def table(transfers: Sequence[Transfer]) -> list[str]:
    """A row for each size: seconds, and how many times the first way is as fast as each."""
    rows = []
    for one in transfers:
        fastest = one.seconds[TRANSPORTS[0]]
        rows.append(
            f"  {one.bytes / 2**20:10.1f} MiB"
            + "".join(
                f"{one.seconds[way]:14.3f} s{one.seconds[way] / fastest:6.2f} x"
                for way in TRANSPORTS
            )
        )
    return [f"weight sync {'':4}" + "".join(f"{way:>24}" for way in TRANSPORTS), *rows]
