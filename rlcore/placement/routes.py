"""Choose how weights travel from actor to rollout: routes, each from one process to several.

    object_store    over the backend's object store: within a node
    broadcast       over the network, once for each node

A route carries what its sender holds: all weights, or its shard where actor processes shard them.
Shards are put together at the reader, so no process ever holds more than it needs. Pure; carried
out by :mod:`rlcore.transport`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from rlcore.placement.plan import Allocation

Transport = Literal["object_store", "broadcast"]
TRANSPORTS: tuple[Transport, ...] = get_args(Transport)
"""In the order in which they are served: a route waits for those of earlier transports and for no
other, so no two processes can wait for each other."""
IN_WORDS = {"object_store": "the object store", "broadcast": "the network"}


@dataclass(frozen=True)
class WeightRoute:
    """Weights on their way from one process.

    Attributes:
        way: over what.
        sender: component and rank: an actor, or a rollout process that hands on what it got.
        readers: ranks of rollout processes.
        part: which shard of the parameters the sender holds; the first one also sends what is
            not sharded.
        on_gpus: all of these processes have an accelerator.
        number: among all routes of a run.
    """

    way: Transport
    sender: tuple[str, int]
    readers: tuple[int, ...]
    part: int = 0
    on_gpus: bool = False
    number: int = 0

    @property
    def handed_on(self) -> bool:
        """Whether its sender has to get the weights first."""
        return self.sender[0] == "rollout"

    def key(self, reader: int) -> str:
        """Of the queue to a reader."""
        return f"weights/{self.number}/{reader}"

    @property
    def keys(self) -> tuple[str, ...]:
        """Of the queues to all readers."""
        return tuple(self.key(reader) for reader in self.readers)


WeightRoutes = tuple[WeightRoute, ...]
IN_PROCESS = (WeightRoute("object_store", ("actor", 0), (0,)),)
"""Where actor and rollout are in one process: messages hold the bytes, and nothing is stored."""


def plan_weight_routes(
    actors: Sequence[Allocation],
    rollouts: Sequence[Allocation],
    *,
    shares: int = 1,
    sync: str = "auto",
) -> WeightRoutes:
    """The routes of a run, in the order in which they are served.

    With `auto`, an actor on the reader's node sends. To nodes without an actor a part goes over the
    network once, to the first reader there, which passes them on to the others.

    Args:
        actors, rollouts: allocations by rank.
        shares: actor processes that shard one copy of the parameters; rank r holds part r modulo
            `shares`.
        sync: `rollout.sync`: `auto`, or the one way for all.
    """
    if sync == "auto":
        nodes = sorted({allocation.node for allocation in rollouts})
        found = [route for node in nodes for route in _to_node(node, actors, rollouts, shares)]
    else:
        way: Transport = "broadcast" if sync == "broadcast" else "object_store"
        everyone = tuple(range(len(rollouts)))
        found = [WeightRoute(way, ("actor", part), everyone, part) for part in range(shares)]
    allocations = {"actor": actors, "rollout": rollouts}

    def on_gpus(route: WeightRoute) -> bool:
        ends = (route.sender, *(("rollout", reader) for reader in route.readers))
        sits = [allocations[component][rank] for component, rank in ends]
        used = [(allocation.node, one) for allocation in sits for one in allocation.local_ranks]
        # NCCL takes no two ends on one
        return all(allocation.gpus for allocation in sits) and len(set(used)) == len(used)

    return _merged([replace(route, on_gpus=on_gpus(route)) for route in found])


def in_words(routes: Sequence[WeightRoute]) -> str:
    """Over what weights go, e.g. "the object store and the network"."""
    return " and ".join(
        IN_WORDS[way] for way in TRANSPORTS if any(route.way == way for route in routes)
    )


def _to_node(
    node: int, actors: Sequence[Allocation], rollouts: Sequence[Allocation], shares: int
) -> Iterator[WeightRoute]:
    """WeightRoutes to the readers on one node."""
    here = [rank for rank, allocation in enumerate(rollouts) if allocation.node == node]
    holders: dict[int, int] = {}
    for rank, allocation in enumerate(actors):
        if allocation.node == node:
            holders.setdefault(rank % shares, rank)
    if len(holders) == shares:
        for part in range(shares):
            yield WeightRoute("object_store", ("actor", holders[part]), tuple(here), part)
        return
    first, *mates = here
    for part in range(shares):
        if part in holders:
            yield WeightRoute("object_store", ("actor", holders[part]), (first,), part)
        else:
            yield WeightRoute("broadcast", ("actor", part), (first,), part)
    if mates:
        yield WeightRoute("object_store", ("rollout", first), tuple(mates))


def _merged(routes: Sequence[WeightRoute]) -> WeightRoutes:
    """One route for each sender, part and way, in the order of ways, numbered; what is handed on
    comes last, as it waits for all the others."""
    readers: dict[WeightRoute, tuple[int, ...]] = {}
    for route in routes:
        kind = replace(route, readers=())
        readers[kind] = readers.get(kind, ()) + route.readers

    def order(kind: WeightRoute) -> tuple[Any, ...]:
        way = TRANSPORTS.index(kind.way)
        return kind.handed_on, way, kind.sender, kind.part, kind.on_gpus

    kinds = sorted(readers, key=order)
    return tuple(replace(one, readers=readers[one], number=n) for n, one in enumerate(kinds))
