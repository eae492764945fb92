"""Send a version of the weights from the actor to every rollout worker: strict, in bounded buckets.

    announcement   version, names, shapes, dtypes     checked before a byte is written
    bucket ...     bytes, one tensor after another    written in place

Each process that holds a shard sends it as it is, over its route (:mod:`rlcore.placement.routes`);
nothing is gathered. All routes are announced first. Then they are served in their order: a sender
ends one before it begins the next, and a reader takes a bucket of each route of one transport in
turn. So a transfer only ever waits for one that began before it, and no deadlock is possible.

What carries the bytes of a route is in :mod:`rlcore.transport.transports`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rlcore.contracts.protocols import Policy
from rlcore.placement.routes import WeightRoute
from rlcore.rollout.messages import Conversation, Receive, Send
from rlcore.transport.arrays import Stream, as_bytes
from rlcore.transport.layout import (
    Announcement,
    AtHand,
    Kind,
    Subset,
    as_it_is,
    fitting,
    held,
    weights,
)
from rlcore.transport.transports import WAITING_FOR, Arrival, Wiring, send


def publish(
    policy: Policy,
    *,
    version: int,
    subset: Subset,
    routes: Sequence[WeightRoute],
    wiring: Wiring,
    at_hand: AtHand = as_it_is,
) -> Conversation:
    """Send what this process holds of the weights.

    Args:
        version: what they are called.
        subset: which of them.
        routes: those that begin here, in their order.
        wiring: of this worker.
        at_hand: see :data:`AtHand`.
    """
    sent = weights(policy, subset)
    kinds = {name: Kind.of(tensor) for name, tensor in sent.items()}
    announced: list[Announcement] = []
    for route in routes:
        spans = tuple(span for span, _ in held(sent, route.part))
        meeting = wiring.meeting(route)
        announced.append(Announcement(version, subset, kinds, spans, wiring.bucket, meeting))
    for route, news in zip(routes, announced, strict=True):
        yield Send(route.keys, news)
    for route, news in zip(routes, announced, strict=True):
        here = (at_hand(tensor) for _, tensor in held(sent, route.part))
        own = (as_bytes(tensor.contiguous()) for tensor in here)
        yield from send(route, news, Stream(own), wiring)


def pull(
    policy: Policy,
    *,
    reader: int,
    routes: Sequence[WeightRoute],
    wiring: Wiring,
    timeout: float,
    at_hand: AtHand = as_it_is,
) -> Conversation:
    """Take over what is published, in place; returns its :class:`Announcement`.

    Args:
        reader: rank of this rollout worker.
        routes: those that end here, in their order.
        wiring: of this worker.
        timeout: seconds to wait until weights are announced.
        at_hand: see :data:`AtHand`.

    Raises:
        WorkerError: what is announced is not exactly what the policy has; nothing was written.
    """
    news = []
    for route in routes:
        news.append((yield Receive(route.key(reader), timeout, WAITING_FOR)))
    places = fitting(news, policy, at_hand)
    arrivals = [
        Arrival(route, reader, one, Stream(pieces))
        for route, one, pieces in zip(routes, news, places, strict=True)
    ]
    for _, beside in groupby(arrivals, key=lambda arrival: arrival.route.way):
        together = list(beside)
        for number in range(max(len(arrival.news.counts) for arrival in together)):
            for arrival in together:
                if number < len(arrival.news.counts):
                    yield from arrival.receive(number, wiring)
    return news[0]
