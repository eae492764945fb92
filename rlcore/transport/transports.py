"""Carry the buckets of a route over its transport: the two ends of each.

    object_store    each message holds a bucket; the store has it once for all readers of a node
    broadcast       a collective a bucket, and no messages

NCCL, which broadcasts between GPUs, has not been run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from rlcore.placement.routes import WeightRoute
from rlcore.rollout.messages import Conversation, Receive, Send
from rlcore.transport.arrays import Stream, borrow
from rlcore.transport.layout import Announcement
from rlcore.transport.network import Address, Broadcast, invite, join

WAITING_FOR = "the actor's weights"


@dataclass
class Wiring:
    """One worker's end of its routes: what is kept between transfers.

    Attributes:
        timeout: seconds to wait for a bucket.
        bucket: bytes of one, at most.
        host: what other nodes know this one by; needed to broadcast.
        groups: those that were formed, by the number of the route.
        stores: where groups meet that are not formed yet, likewise.
    """

    timeout: float
    bucket: int
    host: str = ""
    groups: dict[int, Broadcast] = field(default_factory=dict)
    stores: dict[int, Any] = field(default_factory=dict)

    def meeting(self, route: WeightRoute) -> Address | None:
        """Where the group of a route that begins here is going to meet, if it has to."""
        if route.way != "broadcast" or route.number in self.groups:
            return None
        self.stores[route.number], address = invite(self.host, self.timeout)
        return address

    def form(self, route: WeightRoute, rank: int, store: Any) -> None:
        """Form the group of a route, in which this worker has that rank."""
        self.groups[route.number] = Broadcast(
            store,
            rank=rank,
            size=1 + len(route.readers),
            timeout=self.timeout,
            nccl=route.on_gpus,
        )


def send(route: WeightRoute, news: Announcement, stream: Stream, wiring: Wiring) -> Conversation:
    """Send the stream in the buckets that were announced; returns when it may be changed."""
    if news.counts and news.meeting is not None:
        wiring.form(route, 0, wiring.stores.pop(route.number))
    for count in news.counts:
        if route.way == "broadcast":
            group = wiring.groups[route.number]
            bucket = torch.empty(count, dtype=torch.uint8, device=group.device)
            stream.read(bucket)
            group.pass_on(bucket)
        else:
            data = np.empty(count, np.uint8)  # the message's own from now on
            stream.read(torch.from_numpy(data))
            yield Send(route.keys, data)


@dataclass
class Arrival:
    """What comes over a route to one of its readers.

    Attributes:
        reader: rank of the rollout worker.
        news: what was announced.
        stream: the memory that it belongs in.
    """

    route: WeightRoute
    reader: int
    news: Announcement
    stream: Stream

    def receive(self, number: int, wiring: Wiring) -> Conversation:
        """Take over bucket `number`."""
        route = self.route
        if route.way != "broadcast":
            data = yield Receive(route.key(self.reader), wiring.timeout, WAITING_FOR)
            self.stream.write(borrow(data))
            return
        if number == 0 and self.news.meeting is not None:
            store = join(self.news.meeting, wiring.timeout)
            wiring.form(route, 1 + route.readers.index(self.reader), store)
        group = wiring.groups[route.number]
        bucket = torch.empty(self.news.counts[number], dtype=torch.uint8, device=group.device)
        group.pass_on(bucket)
        self.stream.write(bucket)
