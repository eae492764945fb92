"""Send and receive the buckets of a route over its transport.

    object_store    one message for each bucket, stored once for all readers of a node
    broadcast       one collective for each bucket, without messages

Broadcasts by NCCL are untested: they need a GPU for each member.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from rlcore.placement.routes import WeightRoute
from rlcore.rollout.messages import Conversation, Receive, Send
from rlcore.transport.arrays import ByteStream, read_only_tensor
from rlcore.transport.layout import Announcement
from rlcore.transport.network import Address, BroadcastGroup, connect_store, create_store

WAITING_FOR = "the actor's weights"


@dataclass
class RouteConnections:
    """The state of one worker's routes that outlives a transfer.

    Attributes:
        timeout: seconds to wait for a bucket.
        bucket_bytes: size of a bucket in bytes, at most.
        host: name of this node to other nodes; only broadcasts need it.
        groups: process groups, by the number of the route.
        stores: rendezvous stores of groups that are not formed yet, by the number of the route.
    """

    timeout: float
    bucket_bytes: int
    host: str = ""
    groups: dict[int, BroadcastGroup] = field(default_factory=dict)
    stores: dict[int, Any] = field(default_factory=dict)

    def open_rendezvous(self, route: WeightRoute) -> Address | None:
        """Open the rendezvous of an outgoing route whose group is not formed yet.

        Returns:
            its address, or None if the route needs none.
        """
        if route.transport != "broadcast" or route.number in self.groups:
            return None
        self.stores[route.number], address = create_store(self.host, self.timeout)
        return address

    def form_group(self, route: WeightRoute, rank: int, store: Any) -> None:
        """Form the process group of a route, with this worker as `rank`."""
        self.groups[route.number] = BroadcastGroup(
            store,
            rank=rank,
            size=1 + len(route.readers),
            timeout=self.timeout,
            nccl=route.on_gpus,
        )


def send_stream(
    route: WeightRoute,
    announcement: Announcement,
    stream: ByteStream,
    connections: RouteConnections,
) -> Conversation:
    """Send a stream in the announced buckets. Once this returns, the tensors may be changed."""
    if announcement.message_bytes and announcement.rendezvous is not None:
        connections.form_group(route, 0, connections.stores.pop(route.number))
    for count in announcement.message_bytes:
        if route.transport == "broadcast":
            group = connections.groups[route.number]
            bucket = torch.empty(count, dtype=torch.uint8, device=group.device)
            stream.read(bucket)
            group.broadcast(bucket)
        else:
            data = np.empty(count, np.uint8)  # new memory, which the message keeps
            stream.read(torch.from_numpy(data))
            yield Send(route.keys, data)


@dataclass
class IncomingRoute:
    """A route as one of its readers receives it.

    Attributes:
        route: the route.
        reader: rank of the rollout worker that reads.
        announcement: the sender's announcement.
        stream: memory that the bytes belong in.
    """

    route: WeightRoute
    reader: int
    announcement: Announcement
    stream: ByteStream

    def receive(self, number: int, connections: RouteConnections) -> Conversation:
        """Receive bucket `number` and write it into the policy's memory."""
        route = self.route
        if route.transport != "broadcast":
            data = yield Receive(route.key(self.reader), connections.timeout, WAITING_FOR)
            self.stream.write(read_only_tensor(data))
            return
        if number == 0 and self.announcement.rendezvous is not None:
            store = connect_store(self.announcement.rendezvous, connections.timeout)
            connections.form_group(route, 1 + route.readers.index(self.reader), store)
        group = connections.groups[route.number]
        size = self.announcement.message_bytes[number]
        bucket = torch.empty(size, dtype=torch.uint8, device=group.device)
        group.broadcast(bucket)
        self.stream.write(bucket)
