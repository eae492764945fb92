"""Suggest layouts for given machines, and estimate how full each makes them. Pure.

shared     env, rollout and actor on all ranks: one process acts and learns
hybrid     env on the first half of the ranks, rollout on the second, actor on all
separate   env on a quarter, rollout on a quarter, actor on the second half
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from rlcore.placement.inventory import Inventory
from rlcore.placement.memory import MemoryNeed, fits, main_memory, most_loaded
from rlcore.placement.plan import Plan

PRESETS = ("1x24GB", "1x80GB", "8x80GB", "2x8x80GB")
"""Machines that many have, as `cluster.inventory` describes them."""


@dataclass(frozen=True)
class Fill:
    """What the fullest of a plan's accelerators or nodes holds, in bytes.

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
        return fits(self.need, self.have)

    @property
    def share(self) -> float:
        """Of what there is; where that is unknown it is all."""
        return self.need / (self.have or self.need or 1)


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


def fill(plan: Plan, memory: Mapping[str, MemoryNeed]) -> tuple[Fill, ...]:
    """How full a plan makes its machines: the fullest accelerator, where there are any, and the
    fullest main memory.

    Args:
        memory: what a process needs, by its role.
    """
    nodes = list(enumerate(plan.inventory.nodes))
    gpus = [Fill(most_loaded(plan, n, memory), node.gpu_memory) for n, node in nodes if node.gpus]
    main = [Fill(main_memory(plan, n, memory), node.memory, "node") for n, node in nodes]
    return tuple(max(each, key=lambda one: one.share) for each in (gpus, main) if each)


def _span(first: int, stop: int) -> str:
    return str(first) if stop - first == 1 else f"{first}-{stop - 1}"


def worth_leaving(plan: Plan, memory: Mapping[str, MemoryNeed]) -> tuple[str, ...]:
    """Which of "rollout" and "actor" should be asked to leave accelerators to others, so that none
    holds more than it must: no more of them than make a difference."""

    def most(offloads: tuple[str, ...]) -> float:
        asked = replace(plan, offloads=offloads)
        return max(most_loaded(asked, node, memory) for node in range(len(plan.inventory.nodes)))

    return min(((), ("actor",), ("rollout",), ("rollout", "actor")), key=most)
