"""Place the queues between workers: actors that pass references.

    hub     on the first node: weights, trajectories, counts, heartbeats, and the queues of the
            first env worker if it runs there too
    others  one for each further env worker, on its node: observations and actions

Thus no single process handles the messages of all env workers, and a message between two processes
on the same node does not leave it. A frame is transferred directly from the object store of the
node that made it to that of the node that reads it, whichever actor passes the reference.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from rlcore_ray.channel import ChannelActor

CONCURRENCY = 1000  # calls that may wait in an actor at the same time


class Queues:
    """The actors of one group of workers.

    Args:
        first: id of the node for the hub.
        env_nodes: id of each env worker's node, by rank.

    Attributes:
        hub: actor for everything that does not belong to one env worker.
        of: actor with the queues of each env worker, by rank.
    """

    def __init__(self, first: str, env_nodes: Sequence[str]) -> None:
        self.hub = _start(first)
        self.of = {
            rank: self.hub if rank == 0 and node == first else _start(node)
            for rank, node in enumerate(env_nodes)
        }

    @property
    def all(self) -> list[Any]:
        """Every actor once, the hub first."""
        return [self.hub, *(actor for actor in self.of.values() if actor is not self.hub)]

    def renew(self, rank: int, node: str) -> None:
        """Replace the actor of an env worker that is restarted, as its node may be gone.

        The hub is never replaced.
        """
        if self.of[rank] is not self.hub:
            _kill(self.of[rank])
            self.of[rank] = _start(node)

    def stop(self) -> None:
        """End all actors."""
        for actor in self.all:
            _kill(actor)


def _start(node: str) -> Any:
    strategy = NodeAffinitySchedulingStrategy(node, soft=False)
    options = {"num_cpus": 0, "max_concurrency": CONCURRENCY, "scheduling_strategy": strategy}
    return ray.remote(ChannelActor).options(**options).remote()


def _kill(actor: Any) -> None:
    with contextlib.suppress(RayError):
        ray.kill(actor)
