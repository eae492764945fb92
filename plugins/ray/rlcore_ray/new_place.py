"""Find another place for a process whose node was lost. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from rlcore.placement import Node, Seat

ROUNDING = 1e-6  # shares are fractions that should add up to 1


def elsewhere(
    seat: Seat, others: Sequence[Seat], nodes: Sequence[Node], present: Iterable[int]
) -> Seat | None:
    """A seat of the same size on a node that is left; None where there is no room.

    Its ranks are as many as before, of the same kind, and each has as large a share left: a rank
    that one process had for itself is exchanged for one that nobody has.

    Args:
        seat: of the process; :attr:`Seat.among` says where it may go.
        others: seats of all other processes.
        nodes: the machines, by number.
        present: numbers of the nodes that are left, the preferred ones first.
    """
    share = (seat.gpus or seat.cpus) / len(seat.local_ranks)
    for number in present:
        if seat.among is not None and number not in seat.among:
            continue
        node, here = nodes[number], [other for other in others if other.node == number]
        taken: defaultdict[int, float] = defaultdict(float)
        for other in here:
            if bool(other.gpus) == bool(seat.gpus):
                for rank in other.local_ranks:
                    taken[rank] += (other.gpus or other.cpus) / len(other.local_ranks)
        free = [
            rank
            for rank in range(node.gpus if seat.gpus else node.cpus)
            if taken[rank] + share <= 1 + ROUNDING
        ]
        cores = node.cpus - sum(other.cpus for other in here)
        if len(free) >= len(seat.local_ranks) and seat.cpus <= cores + ROUNDING:
            ranks = tuple(sorted(free[: len(seat.local_ranks)]))
            return replace(seat, node=number, local_ranks=ranks)
    return None
