"""Plan the routes of weights from the actor to the rollout workers. Pure.

    object_store    through the backend's object store, within a node
    broadcast       over the network, once for each node

A route goes from one process to several and carries the weights that its sender holds: all of them,
or its shard of sharded parameters. The reader puts shards together, so no process holds more than
it needs. :mod:`rlcore.transport` sends the weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from rlcore.placement.plan import Allocation

WeightTransport = Literal["object_store", "broadcast"]
TRANSPORTS: tuple[WeightTransport, ...] = get_args(WeightTransport)
"""Transports in the order in which they are served. A route waits only for routes of earlier
transports, so no two processes can wait for each other."""
TRANSPORT_NAMES = {"object_store": "the object store", "broadcast": "the network"}


@dataclass(frozen=True)
class WeightRoute:
    """A transfer of weights from one process to several.

    Attributes:
        transport: how the bytes travel.
        sender: component and rank: an actor, or a rollout worker that relays the weights.
        readers: ranks of the receiving rollout workers.
        part: number of the shard that the sender holds; the first one also sends replicated
            parameters.
        on_gpus: sender and readers have an accelerator each.
        number: number of the route among all routes of a run.
    """

    transport: WeightTransport
    sender: tuple[str, int]
    readers: tuple[int, ...]
    part: int = 0
    on_gpus: bool = False
    number: int = 0

    @property
    def is_relay(self) -> bool:
        """Whether the sender is a rollout worker that receives the weights first."""
        return self.sender[0] == "rollout"

    def key(self, reader: int) -> str:
        """Return the key of the queue to a reader."""
        return f"weights/{self.number}/{reader}"

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys of the queues to all readers."""
        return tuple(self.key(reader) for reader in self.readers)


WeightRoutes = tuple[WeightRoute, ...]
IN_PROCESS = (WeightRoute("object_store", ("actor", 0), (0,)),)
"""Routes of the local backend, whose messages stay within the process."""


def plan_weight_routes(
    actors: Sequence[Allocation],
    rollouts: Sequence[Allocation],
    *,
    shares: int = 1,
    sync: str = "auto",
) -> WeightRoutes:
    """Return the routes of a run, in the order in which they are served.

    With `auto`, an actor on the reader's node is the sender. To a node without an actor, each shard
    goes over the network once, to the first reader there, which relays it to the others.

    Args:
        actors, rollouts: allocations by rank.
        shares: number of actor processes that shard one copy of the parameters; rank r holds shard
            r modulo `shares`.
        sync: value of `rollout.sync`: `auto`, or one transport for all routes.
    """
    if sync == "auto":
        nodes = sorted({allocation.node for allocation in rollouts})
        routes = [
            route for node in nodes for route in _routes_to_node(node, actors, rollouts, shares)
        ]
    else:
        transport: WeightTransport = "broadcast" if sync == "broadcast" else "object_store"
        readers = tuple(range(len(rollouts)))
        routes = [WeightRoute(transport, ("actor", part), readers, part) for part in range(shares)]
    allocations = {"actor": actors, "rollout": rollouts}

    def on_gpus(route: WeightRoute) -> bool:
        ends = (route.sender, *(("rollout", reader) for reader in route.readers))
        members = [allocations[component][rank] for component, rank in ends]
        devices = [(member.node, rank) for member in members for rank in member.local_ranks]
        # NCCL needs a different accelerator for each member of a group
        return all(member.gpus for member in members) and len(set(devices)) == len(devices)

    return _merge([replace(route, on_gpus=on_gpus(route)) for route in routes])


def describe_transports(routes: Sequence[WeightRoute]) -> str:
    """Return the transports in words, as in "the object store and the network"."""
    return " and ".join(
        TRANSPORT_NAMES[transport]
        for transport in TRANSPORTS
        if any(route.transport == transport for route in routes)
    )


def _routes_to_node(
    node: int, actors: Sequence[Allocation], rollouts: Sequence[Allocation], shares: int
) -> Iterator[WeightRoute]:
    """Yield the routes to the readers on one node."""
    readers = [rank for rank, allocation in enumerate(rollouts) if allocation.node == node]
    holders: dict[int, int] = {}
    for rank, allocation in enumerate(actors):
        if allocation.node == node:
            holders.setdefault(rank % shares, rank)
    if len(holders) == shares:
        for part in range(shares):
            yield WeightRoute("object_store", ("actor", holders[part]), tuple(readers), part)
        return
    first, *others = readers
    for part in range(shares):
        if part in holders:
            yield WeightRoute("object_store", ("actor", holders[part]), (first,), part)
        else:
            yield WeightRoute("broadcast", ("actor", part), (first,), part)
    if others:
        yield WeightRoute("object_store", ("rollout", first), tuple(others))


def _merge(routes: Sequence[WeightRoute]) -> WeightRoutes:
    """Merge routes that differ in readers alone, order them by transport and number them.

    Relayed routes come last, because their senders wait for all other routes.
    """
    readers: dict[WeightRoute, tuple[int, ...]] = {}
    for route in routes:
        without_readers = replace(route, readers=())
        readers[without_readers] = readers.get(without_readers, ()) + route.readers

    def order(route: WeightRoute) -> tuple[Any, ...]:
        served = TRANSPORTS.index(route.transport)
        return route.is_relay, served, route.sender, route.part, route.on_gpus

    merged = sorted(readers, key=order)
    return tuple(
        replace(route, readers=readers[route], number=number) for number, route in enumerate(merged)
    )
