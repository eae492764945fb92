"""How the bytes of a lane travel: for each way its two ends, made anew for each transfer.

    object_store    each message holds a bucket; the store has it once for all readers of a node
    shared_memory   messages hold a number: the bucket lies in memory that the readers map
    device          the same on the accelerator that they share
    broadcast       a collective a bucket, and no messages

The last two have not been run on GPUs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlcore.errors import WorkerError
from rlcore.placement.lanes import Lane, Way
from rlcore.rollout.messages import Conversation, Publish, Receive, Send
from rlcore.sync.arrays import Stream, borrow
from rlcore.sync.layout import Announcement
from rlcore.sync.memory import Lent, Place
from rlcore.sync.network import Address, Broadcast, invite, join

SLOTS = 2  # of memory: one is filled while the other is read
WAITING_FOR = "the actor's weights"


@dataclass
class Wiring:
    """One worker's end of its lanes: what is kept between transfers.

    Attributes:
        timeout: seconds to wait for a bucket.
        bucket: bytes of one, at most.
        host: what other nodes know this one by; needed to broadcast.
        groups: those that were formed, by the number of the lane.
    """

    timeout: float
    bucket: int
    host: str = ""
    groups: dict[int, Broadcast] = field(default_factory=dict)


class Outlet(ABC):
    """The sender's end.

    Attributes:
        size: bytes of a bucket.
        lent: memory that readers of this transfer share.
        meeting: of :class:`Announcement`.
    """

    lent: Lent | None = None
    meeting: Address | None = None

    def __init__(self, lane: Lane, size: int, wiring: Wiring) -> None:
        self.lane = lane
        self.size = size
        self._wiring = wiring

    @abstractmethod
    def pour(self, counts: Sequence[int], stream: Stream) -> Conversation:
        """Send the stream in buckets of so many bytes; returns when it may be changed."""

    @property
    def place(self) -> Place | None:
        """Of :class:`Announcement`."""
        return None if self.lent is None else self.lent.place

    def close(self) -> None:
        """Give up what was opened for this transfer."""
        if self.lent is not None:
            self.lent.close()


class Inlet(ABC):
    """A reader's end."""

    def __init__(
        self, lane: Lane, reader: int, news: Announcement, stream: Stream, wiring: Wiring
    ) -> None:
        self.lane = lane
        self.news = news
        self._reader = reader
        self._stream = stream
        self._wiring = wiring

    @abstractmethod
    def take(self, number: int, count: int) -> Conversation:
        """Take over bucket `number`, of so many bytes."""

    def _received(self) -> Conversation:
        key = self.lane.key(self._reader)
        return (yield Receive(key, self._wiring.timeout, WAITING_FOR))


class ToStore(Outlet):
    def pour(self, counts: Sequence[int], stream: Stream) -> Conversation:
        for count in counts:
            data = np.empty(count, np.uint8)  # the message's own from now on
            stream.read(torch.from_numpy(data))
            yield Publish(self.lane.keys, data)


class FromStore(Inlet):
    def take(self, number: int, count: int) -> Conversation:
        data = yield from self._received()
        self._stream.write(borrow(data))


class ToMemory(Outlet):
    def __init__(self, lane: Lane, size: int, wiring: Wiring) -> None:
        super().__init__(lane, size, wiring)
        device = torch.device("cuda") if lane.way == "device" else None
        self.lent: Lent = Lent(SLOTS * size, device)
        self._taken: Counter[int] = Counter()

    def pour(self, counts: Sequence[int], stream: Stream) -> Conversation:
        for number, count in enumerate(counts):
            yield from self._until_taken(number - SLOTS)
            slot = _slot(self.lent.data, number, self.size)[:count]
            stream.read(slot)
            _finish(slot)
            yield Publish(self.lane.keys, number)
        for number in range(len(counts)):
            yield from self._until_taken(number)

    def _until_taken(self, bucket: int) -> Conversation:
        """Wait until all readers are done with a bucket; of those before the first, at once."""
        while bucket >= 0 and self._taken[bucket] < len(self.lane.readers):
            number = yield Receive(
                self.lane.taken, self._wiring.timeout, "rollout workers to take weights"
            )
            self._taken[number] += 1


class FromMemory(Inlet):
    _data: Tensor | None = None

    def take(self, number: int, count: int) -> Conversation:
        if self._data is None:
            assert self.news.place is not None  # announced where memory is shared
            self._data = self.news.place.open()
        due = yield from self._received()
        if due != number:
            raise WorkerError(f"bucket {due} of the weights came while {number} was due")
        slot = _slot(self._data, number, self.news.bucket)[:count]
        self._stream.write(slot)
        _finish(slot)
        yield Send(self.lane.taken, number)


class ToNetwork(Outlet):
    def __init__(self, lane: Lane, size: int, wiring: Wiring) -> None:
        super().__init__(lane, size, wiring)
        if lane.number not in wiring.groups:
            self._store, self.meeting = invite(wiring.host, wiring.timeout)

    def pour(self, counts: Sequence[int], stream: Stream) -> Conversation:
        if counts and self.meeting is not None:
            _form(self.lane, 0, self._store, self._wiring)
        for count in counts:
            group = self._wiring.groups[self.lane.number]
            data = torch.empty(count, dtype=torch.uint8, device=group.device)
            stream.read(data)
            group.pass_on(data)
        yield from ()


class FromNetwork(Inlet):
    def take(self, number: int, count: int) -> Conversation:
        meeting = self.news.meeting if number == 0 else None
        if meeting is not None:
            store = join(meeting, self._wiring.timeout)
            _form(self.lane, 1 + self.lane.readers.index(self._reader), store, self._wiring)
        group = self._wiring.groups[self.lane.number]
        data = torch.empty(count, dtype=torch.uint8, device=group.device)
        group.pass_on(data)
        self._stream.write(data)
        yield from ()


OUTLETS: dict[Way, type[Outlet]] = {
    "device": ToMemory,
    "shared_memory": ToMemory,
    "object_store": ToStore,
    "broadcast": ToNetwork,
}
INLETS: dict[Way, type[Inlet]] = {
    "device": FromMemory,
    "shared_memory": FromMemory,
    "object_store": FromStore,
    "broadcast": FromNetwork,
}


def _form(lane: Lane, rank: int, store: Any, wiring: Wiring) -> None:
    wiring.groups[lane.number] = Broadcast(
        store,
        rank=rank,
        size=1 + len(lane.readers),
        timeout=wiring.timeout,
        nccl=lane.on_gpus,
    )


def _slot(data: Tensor, number: int, size: int) -> Tensor:
    begin = number % SLOTS * size
    return data[begin : begin + size]


def _finish(data: Tensor) -> None:
    """An accelerator copies later than it is asked to."""
    if data.is_cuda:
        torch.cuda.synchronize(data.device)
