"""Make the sender and receiver of a route's transport, anew for each transfer.

    object_store    each message holds a bucket; the store has it once for all readers of a node
    broadcast       a collective a bucket, and no messages

NCCL, which broadcasts between GPUs, has not been run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from rlcore.placement.routes import Transport, WeightRoute
from rlcore.rollout.messages import Conversation, Publish, Receive
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
    """

    timeout: float
    bucket: int
    host: str = ""
    groups: dict[int, Broadcast] = field(default_factory=dict)


class Sender(ABC):
    """The sender's end.

    Attributes:
        meeting: of :class:`Announcement`.
    """

    meeting: Address | None = None

    def __init__(self, route: WeightRoute, wiring: Wiring) -> None:
        self.route = route
        self._wiring = wiring

    @abstractmethod
    def send(self, counts: Sequence[int], stream: Stream) -> Conversation:
        """Send the stream in buckets of so many bytes; returns when it may be changed."""


class Receiver(ABC):
    """A reader's end."""

    def __init__(
        self, route: WeightRoute, reader: int, news: Announcement, stream: Stream, wiring: Wiring
    ) -> None:
        self.route = route
        self.news = news
        self._reader = reader
        self._stream = stream
        self._wiring = wiring

    @abstractmethod
    def receive(self, number: int, count: int) -> Conversation:
        """Take over bucket `number`, of so many bytes."""


class ToStore(Sender):
    def send(self, counts: Sequence[int], stream: Stream) -> Conversation:
        for count in counts:
            data = np.empty(count, np.uint8)  # the message's own from now on
            stream.read(torch.from_numpy(data))
            yield Publish(self.route.keys, data)


class FromStore(Receiver):
    def receive(self, number: int, count: int) -> Conversation:
        key = self.route.key(self._reader)
        data = yield Receive(key, self._wiring.timeout, WAITING_FOR)
        self._stream.write(borrow(data))


class ToNetwork(Sender):
    def __init__(self, route: WeightRoute, wiring: Wiring) -> None:
        super().__init__(route, wiring)
        if route.number not in wiring.groups:
            self._store, self.meeting = invite(wiring.host, wiring.timeout)

    def send(self, counts: Sequence[int], stream: Stream) -> Conversation:
        if counts and self.meeting is not None:
            _form(self.route, 0, self._store, self._wiring)
        for count in counts:
            group = self._wiring.groups[self.route.number]
            data = torch.empty(count, dtype=torch.uint8, device=group.device)
            stream.read(data)
            group.pass_on(data)
        yield from ()


class FromNetwork(Receiver):
    def receive(self, number: int, count: int) -> Conversation:
        meeting = self.news.meeting if number == 0 else None
        if meeting is not None:
            store = join(meeting, self._wiring.timeout)
            _form(self.route, 1 + self.route.readers.index(self._reader), store, self._wiring)
        group = self._wiring.groups[self.route.number]
        data = torch.empty(count, dtype=torch.uint8, device=group.device)
        group.pass_on(data)
        self._stream.write(data)
        yield from ()


SENDERS: dict[Transport, type[Sender]] = {"object_store": ToStore, "broadcast": ToNetwork}
RECEIVERS: dict[Transport, type[Receiver]] = {"object_store": FromStore, "broadcast": FromNetwork}


def _form(route: WeightRoute, rank: int, store: Any, wiring: Wiring) -> None:
    wiring.groups[route.number] = Broadcast(
        store,
        rank=rank,
        size=1 + len(route.readers),
        timeout=wiring.timeout,
        nccl=route.on_gpus,
    )
