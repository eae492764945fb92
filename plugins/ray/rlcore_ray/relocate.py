"""Move env workers from a lost node to another node.

All randomness is keyed by episode, and an interrupted rollout is repeated from its start, so its
result does not depend on the nodes of its env workers. A worker with a policy can't be moved,
because its weights are lost with its node.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from rlcore.placement.plan import Allocation
from rlcore.workers.worker_specs import Member, WorkerSpecs
from rlcore_ray.channel import WorkerLost
from rlcore_ray.health import GOES_ON
from rlcore_ray.new_place import elsewhere


class Irreplaceable(WorkerLost):
    """A worker that can't be restarted; repeating the task is pointless."""


def relocate(
    worker_specs: WorkerSpecs, lost: Sequence[int], gone: Collection[int]
) -> tuple[tuple[Member, ...], list[str]]:
    """Find new nodes for lost env workers whose node has left the cluster.

    Args:
        lost: ranks of the env workers to restart.
        gone: numbers of the nodes that have left.

    Returns:
        (all env workers with their new allocations, a sentence on each that moved).

    Raises:
        Irreplaceable: no node has room for a worker, or a worker of another role was on a node that
            has left.
    """
    fixed = [
        (f"{role} worker {rank}", member.allocation)
        for role, members in worker_specs.members.items()
        for rank, member in enumerate(members)
        if role != "env"
    ]
    for name, allocation in fixed:
        if allocation.node in gone:
            raise Irreplaceable(_left(worker_specs, allocation, name), hint=GOES_ON)
    workers, said = list(worker_specs.members["env"]), []
    present = [number for number in range(len(worker_specs.nodes)) if number not in gone]
    # prefer nodes with an env worker: they were checked for the simulator before the run
    present.sort(key=lambda number: number not in {one.allocation.node for one in workers})
    for rank in lost:
        allocation = workers[rank].allocation
        if allocation.node not in gone:
            continue
        others = [one.allocation for n, one in enumerate(workers) if n != rank]
        others += [theirs for _, theirs in fixed]
        found = elsewhere(allocation, others, worker_specs.nodes, present)
        left = _left(worker_specs, allocation, f"env worker {rank}")
        if found is None:
            raise Irreplaceable(
                f"{left}, and no other node has room for it",
                hint=f"start Ray there again, or plan without it; {GOES_ON}",
            )
        workers[rank] = replace(workers[rank], allocation=found)
        said.append(f"{left}, which goes on on {worker_specs.node_name(found.node)}")
    return tuple(workers), said


def _left(worker_specs: WorkerSpecs, allocation: Allocation, worker: str) -> str:
    return f"{worker_specs.node_name(allocation.node)} left the cluster, with {worker}"
