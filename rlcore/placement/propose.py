"""Suggest layouts for given machines, and estimate their memory use under each. Pure.

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
"""Common machines, in the notation of `cluster.inventory`."""


@dataclass(frozen=True)
class Fill:
    """Memory use of the fullest accelerator or node of a plan, in bytes.

    Attributes:
        need: bytes that its processes need.
        have: bytes that it has; 0 if unknown.
        what: "GPU", or "node" for main memory.
    """

    need: float
    have: int
    what: str = "GPU"

    @property
    def fits(self) -> bool:
        return fits(self.need, self.have)

    @property
    def share(self) -> float:
        """Fraction of the memory that is needed; 1 if its size is unknown, 0 if nothing is needed
        of unknown memory."""
        return self.need / (self.have or self.need or 1)


def layouts(inventory: Inventory) -> dict[str, dict[str, str]]:
    """Return `{name: component_placement}` of the layouts that fit the number of ranks.

    The layout that needs the fewest ranks comes first.
    """
    total = inventory.total
    half = total // 2
    placements = {"shared": dict.fromkeys(("env", "rollout", "actor"), "all")}
    if total >= 2 and total % 2 == 0:
        placements["hybrid"] = {
            "env": _span(0, half),
            "rollout": _span(half, total),
            "actor": "all",
        }
    if total >= 4 and total % 4 == 0:
        quarter = total // 4
        placements["separate"] = {
            "env": _span(0, quarter),
            "rollout": _span(quarter, half),
            "actor": _span(half, total),
        }
    return placements


def fill(plan: Plan, memory: Mapping[str, MemoryNeed]) -> tuple[Fill, ...]:
    """Return the memory use of a plan's fullest accelerator, if it has any, and fullest node.

    Args:
        memory: memory that a process needs, by role.
    """
    nodes = list(enumerate(plan.inventory.nodes))
    gpus = [Fill(most_loaded(plan, n, memory), node.gpu_memory) for n, node in nodes if node.gpus]
    main = [Fill(main_memory(plan, n, memory), node.memory, "node") for n, node in nodes]
    return tuple(max(fills, key=lambda fill: fill.share) for fills in (gpus, main) if fills)


def _span(first: int, stop: int) -> str:
    return str(first) if stop - first == 1 else f"{first}-{stop - 1}"


def roles_to_offload(plan: Plan, memory: Mapping[str, MemoryNeed]) -> tuple[str, ...]:
    """Return which of "rollout" and "actor" to offload to minimise the fullest accelerator's use.

    Of equally good choices, the one with the fewest roles is returned; it may be empty.
    """

    def fullest(offloads: tuple[str, ...]) -> float:
        changed = replace(plan, offloads=offloads)
        return max(most_loaded(changed, node, memory) for node in range(len(plan.inventory.nodes)))

    return min(((), ("actor",), ("rollout",), ("rollout", "actor")), key=fullest)
