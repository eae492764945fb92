"""Send one version of the weights from the actor to every rollout worker, in bounded buckets.

    announcement   version, names, shapes, dtypes     checked before a byte is written
    bucket ...     bytes, one tensor after another    written in place

Each process sends the shards that it holds over its route (:mod:`rlcore.placement.routes`) without
gathering them. All routes are announced first and then served in their order: a sender finishes a
route before it begins the next, and a reader takes one bucket of each route of a transport in turn.
So a transfer only waits for transfers that began earlier, and a deadlock is impossible.

The transports are in :mod:`rlcore.transport.transports`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rlcore.contracts.protocols import Policy
from rlcore.placement.routes import WeightRoute
from rlcore.rollout.messages import Conversation, Receive, Send
from rlcore.transport.arrays import ByteStream, byte_view
from rlcore.transport.layout import (
    Announcement,
    LocateWeight,
    Subset,
    TensorType,
    destinations,
    identity,
    local_shards,
    named_weights,
)
from rlcore.transport.transports import WAITING_FOR, IncomingRoute, RouteConnections, send_stream


def send_weights(
    policy: Policy,
    *,
    version: int,
    subset: Subset,
    routes: Sequence[WeightRoute],
    connections: RouteConnections,
    locate: LocateWeight = identity,
) -> Conversation:
    """Send the weights that this process holds.

    Called on every actor rank after an update, while the rollout workers run
    :func:`receive_weights`.

    Args:
        policy: the actor's policy.
        version: number of the weights' version.
        subset: which weights to send.
        routes: routes that begin at this process, in their order.
        connections: this worker's connections.
        locate: see :data:`LocateWeight`.
    """
    sent = named_weights(policy, subset)
    types = {name: TensorType.of(tensor) for name, tensor in sent.items()}
    announcements: list[Announcement] = []
    for route in routes:
        ranges = tuple(byte_range for byte_range, _ in local_shards(sent, route.part))
        rendezvous = connections.open_rendezvous(route)
        announcements.append(
            Announcement(version, subset, types, ranges, connections.bucket_bytes, rendezvous)
        )
    for route, announcement in zip(routes, announcements, strict=True):
        yield Send(route.keys, announcement)
    for route, announcement in zip(routes, announcements, strict=True):
        located = (locate(shard) for _, shard in local_shards(sent, route.part))
        stream = ByteStream(byte_view(shard.contiguous()) for shard in located)
        yield from send_stream(route, announcement, stream, connections)


def receive_weights(
    policy: Policy,
    *,
    reader: int,
    routes: Sequence[WeightRoute],
    connections: RouteConnections,
    timeout: float,
    locate: LocateWeight = identity,
) -> Conversation:
    """Receive the weights of every route into the policy, in place.

    Args:
        policy: the rollout worker's policy.
        reader: rank of this rollout worker.
        routes: routes that end at this process, in their order.
        connections: this worker's connections.
        timeout: seconds to wait for an announcement.
        locate: see :data:`LocateWeight`.

    Returns:
        the :class:`Announcement` of the first route.

    Raises:
        WorkerError: the announced weights are not exactly the policy's. Nothing was written.
    """
    announcements = []
    for route in routes:
        announcements.append((yield Receive(route.key(reader), timeout, WAITING_FOR)))
    memory = destinations(announcements, policy, locate)
    incoming = [
        IncomingRoute(route, reader, announcement, ByteStream(ranges))
        for route, announcement, ranges in zip(routes, announcements, memory, strict=True)
    ]
    for _, group in groupby(incoming, key=lambda incoming_route: incoming_route.route.transport):
        same_transport = list(group)
        most_buckets = max(
            len(incoming_route.announcement.message_bytes) for incoming_route in same_transport
        )
        for number in range(most_buckets):
            for incoming_route in same_transport:
                if number < len(incoming_route.announcement.message_bytes):
                    yield from incoming_route.receive(number, connections)
    return announcements[0]
