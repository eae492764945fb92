"""Layouts worth a try on given machines, and how full each makes them. Pure.

shared     env, rollout and actor on all ranks: one process acts and learns
hybrid     env on the first half of the ranks, rollout on the second, actor on all
separate   env on a quarter, rollout on a quarter, actor on the second half
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rlcore.placement.inventory import Inventory
from rlcore.placement.memory import Need, in_main, load
from rlcore.placement.plan import Plan

PRESETS = ("1x24GB", "1x80GB", "8x80GB", "2x8x80GB")
"""Machines that many have, as `cluster.inventory` describes them."""


@dataclass(frozen=True)
class Fill:
    """What is fullest of a plan's machines, in bytes.

    Attributes:
        need: what it holds.
        have: 0 if unknown.
        what: "GPU", or "node" where it is main memory.
    """

    need: float
    have: int
    what: str = "GPU"

    @property
    def fits(self) -> bool:
        return not self.have or self.need <= self.have


def layouts(inventory: Inventory) -> dict[str, dict[str, str]]:
    """`{name: component_placement}`, the one that needs least first."""
    total = inventory.total
    found = {"shared": dict.fromkeys(("env", "rollout", "actor"), "all")}
    if total >= 2 and total % 2 == 0:
        half = total // 2
        found["hybrid"] = {"env": _span(0, half), "rollout": _span(half, total), "actor": "all"}
    if total >= 4 and total % 4 == 0:
        quarter, half = total // 4, total // 2
        found["separate"] = {
            "env": _span(0, quarter),
            "rollout": _span(quarter, half),
            "actor": _span(half, total),
        }
    return found


def micro_batch(wanted: int, global_batch: int, ranks: int) -> int | None:
    """The most chunks per forward, up to `wanted`, with which `ranks` actor ranks share
    `global_batch` evenly; None: there is none."""
    fitting = [n for n in range(1, wanted + 1) if global_batch % (n * ranks) == 0]
    return max(fitting, default=None)


def fill(plan: Plan, memory: Mapping[str, Need]) -> Fill:
    """How full a plan makes its machines: their accelerators, and main memory where there are none
    or it binds.

    Args:
        memory: what a process needs, by its role.
    """
    found = []
    for index, node in enumerate(plan.inventory.nodes):
        main = Fill(in_main(plan, index, memory), node.memory, "node")
        if plan.inventory.kind == "GPU":
            found += [
                Fill(load(plan, rank, memory), node.gpu_memory)
                for rank in plan.inventory.ranks(index)
            ]
        if plan.inventory.kind != "GPU" or not main.fits:
            found.append(main)
    return max(found, key=lambda one: one.need / (one.have or one.need or 1))


def _span(first: int, stop: int) -> str:
    return str(first) if stop - first == 1 else f"{first}-{stop - 1}"
