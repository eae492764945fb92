"""Send a version of the weights from the actor to every rollout worker: strict, in bounded buckets.

    announcement   version, names, shapes, dtypes     checked before a byte is written
    bucket ...     bytes, one tensor after another    written in place

Each process that holds a shard sends it as it is, over its lane (:mod:`rlcore.placement.routes`);
nothing is gathered. All lanes are announced first. Then they are served in their order: a sender
ends one before it begins the next, and a reader takes a bucket of each lane of one transport in
turn. So a transfer only ever waits for one that began before it, and no deadlock is possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rlcore.contracts.protocols import Policy
from rlcore.placement.routes import Lane
from rlcore.rollout.messages import Conversation, Publish, Receive
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
from rlcore.transport.transports import INLETS, OUTLETS, WAITING_FOR, Inlet, Outlet, Wiring


def publish(
    policy: Policy,
    *,
    version: int,
    subset: Subset,
    lanes: Sequence[Lane],
    wiring: Wiring,
    at_hand: AtHand = as_it_is,
) -> Conversation:
    """Send what this process holds of the weights.

    Args:
        version: what they are called.
        subset: which of them.
        lanes: those that begin here, in their order.
        wiring: of this worker.
        at_hand: see :data:`AtHand`.
    """
    sent = weights(policy, subset)
    kinds = {name: Kind.of(tensor) for name, tensor in sent.items()}
    outlets: list[tuple[Outlet, Announcement]] = []
    for lane in lanes:
        spans = tuple(span for span, _ in held(sent, lane.part))
        outlet = OUTLETS[lane.way](lane, wiring)
        news = Announcement(version, subset, kinds, spans, wiring.bucket, outlet.meeting)
        outlets.append((outlet, news))
    for outlet, news in outlets:
        yield Publish(outlet.lane.keys, news)
    for outlet, news in outlets:
        here = (at_hand(tensor) for _, tensor in held(sent, outlet.lane.part))
        own = (as_bytes(tensor.contiguous()) for tensor in here)
        yield from outlet.pour(news.counts, Stream(own))


def pull(
    policy: Policy,
    *,
    reader: int,
    lanes: Sequence[Lane],
    wiring: Wiring,
    timeout: float,
    at_hand: AtHand = as_it_is,
) -> Conversation:
    """Take over what is published, in place; returns its :class:`Announcement`.

    Args:
        reader: rank of this rollout worker.
        lanes: those that end here, in their order.
        wiring: of this worker.
        timeout: seconds to wait until weights are announced.
        at_hand: see :data:`AtHand`.

    Raises:
        WorkerError: what is announced is not exactly what the policy has; nothing was written.
    """
    news = []
    for lane in lanes:
        news.append((yield Receive(lane.key(reader), timeout, WAITING_FOR)))
    places = fitting(news, policy, at_hand)
    inlets = [
        INLETS[lane.way](lane, reader, one, Stream(pieces), wiring)
        for lane, one, pieces in zip(lanes, news, places, strict=True)
    ]
    for _, beside in groupby(inlets, key=lambda inlet: inlet.lane.way):
        yield from _in_turn(list(beside))
    return news[0]


def _in_turn(inlets: Sequence[Inlet]) -> Conversation:
    """The first bucket of each, the second of each, ..."""
    most = max(len(inlet.news.counts) for inlet in inlets)
    for number in range(most):
        for inlet in inlets:
            counts = inlet.news.counts
            if number < len(counts):
                yield from inlet.take(number, counts[number])
