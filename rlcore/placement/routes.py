"""Choose how weights travel from actor to rollout: lanes, each from one process to several.

    object_store    over Ray's object store: within a node
    broadcast       over the network, once for each node

A lane carries what its sender holds: all weights, or its shard where actor processes shard them.
Shards are put together at the reader, so no process ever holds more than it needs. Pure; carried
out by :mod:`rlcore.transport`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from rlcore.placement.plan import Seat

Way = Literal["object_store", "broadcast"]
WAYS: tuple[Way, ...] = get_args(Way)
"""In the order in which they are served: a lane waits for those of the ways before its own, and for
no other, so no two processes can wait for each other."""
IN_WORDS = {"object_store": "the object store", "broadcast": "the network"}


@dataclass(frozen=True)
class Lane:
    """Weights on their way from one process.

    Attributes:
        way: over what.
        sender: component and rank: an actor, or a rollout process that hands on what it got.
        readers: ranks of rollout processes.
        part: which shard of the parameters the sender holds; the first one also sends what is
            not sharded.
        on_gpus: all of these processes have an accelerator.
        number: among all lanes of a run.
    """

    way: Way
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


Lanes = tuple[Lane, ...]
IN_PROCESS = (Lane("object_store", ("actor", 0), (0,)),)
"""Where actor and rollout are in one process: messages hold the bytes, and nothing is stored."""


def plan_lanes(
    actors: Sequence[Seat], rollouts: Sequence[Seat], *, shares: int = 1, sync: str = "auto"
) -> Lanes:
    """The lanes of a run, in the order in which they are served.

    With `auto`, an actor on the reader's node sends. To nodes without an actor a part goes over the
    network once, to the first reader there, which passes them on to the others.

    Args:
        actors, rollouts: seats by rank.
        shares: actor processes that shard one copy of the parameters; rank r holds part r modulo
            `shares`.
        sync: `rollout.sync`: `auto`, or the one way for all.
    """
    if sync == "auto":
        nodes = sorted({seat.node for seat in rollouts})
        found = [lane for node in nodes for lane in _to_node(node, actors, rollouts, shares)]
    else:
        way: Way = "broadcast" if sync == "broadcast" else "object_store"
        everyone = tuple(range(len(rollouts)))
        found = [Lane(way, ("actor", part), everyone, part) for part in range(shares)]
    seats = {"actor": actors, "rollout": rollouts}

    def on_gpus(lane: Lane) -> bool:
        ends = (lane.sender, *(("rollout", reader) for reader in lane.readers))
        sits = [seats[component][rank] for component, rank in ends]
        used = [(seat.node, one) for seat in sits for one in seat.local_ranks]
        # NCCL takes no two ends on one
        return all(seat.gpus for seat in sits) and len(set(used)) == len(used)

    return _merged([replace(lane, on_gpus=on_gpus(lane)) for lane in found])


def in_words(lanes: Sequence[Lane]) -> str:
    """Over what weights go, e.g. "the object store and the network"."""
    return " and ".join(IN_WORDS[way] for way in WAYS if any(lane.way == way for lane in lanes))


def _to_node(
    node: int, actors: Sequence[Seat], rollouts: Sequence[Seat], shares: int
) -> Iterator[Lane]:
    """Lanes to the readers on one node."""
    here = [rank for rank, seat in enumerate(rollouts) if seat.node == node]
    holders: dict[int, int] = {}
    for rank, seat in enumerate(actors):
        if seat.node == node:
            holders.setdefault(rank % shares, rank)
    if len(holders) == shares:
        for part in range(shares):
            yield Lane("object_store", ("actor", holders[part]), tuple(here), part)
        return
    first, *mates = here
    for part in range(shares):
        if part in holders:
            yield Lane("object_store", ("actor", holders[part]), (first,), part)
        else:
            yield Lane("broadcast", ("actor", part), (first,), part)
    if mates:
        yield Lane("object_store", ("rollout", first), tuple(mates))


def _merged(lanes: Sequence[Lane]) -> Lanes:
    """One lane for each sender, part and way, in the order of ways, numbered; what is handed on
    comes last, as it waits for all the others."""
    readers: dict[tuple[bool, int, tuple[str, int], int, bool], tuple[int, ...]] = {}
    for lane in lanes:
        kind = (lane.handed_on, WAYS.index(lane.way), lane.sender, lane.part, lane.on_gpus)
        readers[kind] = readers.get(kind, ()) + lane.readers
    return tuple(
        Lane(WAYS[way], sender, got, part, on_gpus, number)
        for number, ((_, way, sender, part, on_gpus), got) in enumerate(sorted(readers.items()))
    )
