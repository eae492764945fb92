"""Find another place for a process whose node was lost. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from rlcore.placement import Node
from rlcore.placement.plan import Allocation

ROUNDING = 1e-6  # shares are fractions that should add up to 1


def elsewhere(
    allocation: Allocation,
    others: Sequence[Allocation],
    nodes: Sequence[Node],
    present: Iterable[int],
) -> Allocation | None:
    """Return an allocation of the same size on a remaining node; None if no node has room.

    It has the same number of local ranks of the same kind (GPUs or CPUs), each with the same share
    free: a rank that the process used exclusively is replaced by an unused one.

    Args:
        allocation: allocation of the process; :attr:`Allocation.allowed_nodes` restricts its nodes.
        others: allocations of all other processes.
        nodes: the machines, by number.
        present: numbers of the nodes that are left, the preferred ones first.
    """
    share = (allocation.gpus or allocation.cpus) / len(allocation.local_ranks)
    for number in present:
        if allocation.allowed_nodes is not None and number not in allocation.allowed_nodes:
            continue
        node, here = nodes[number], [other for other in others if other.node == number]
        taken: defaultdict[int, float] = defaultdict(float)
        for other in here:
            if bool(other.gpus) == bool(allocation.gpus):
                for rank in other.local_ranks:
                    taken[rank] += (other.gpus or other.cpus) / len(other.local_ranks)
        free = [
            rank
            for rank in range(node.gpus if allocation.gpus else node.cpus)
            if taken[rank] + share <= 1 + ROUNDING
        ]
        cores = node.cpus - sum(other.cpus for other in here)
        if len(free) >= len(allocation.local_ranks) and allocation.cpus <= cores + ROUNDING:
            ranks = tuple(sorted(free[: len(allocation.local_ranks)]))
            return replace(allocation, node=number, local_ranks=ranks)
    return None
