"""Each way on its own: senders add up, groups are kept."""

from __future__ import annotations

import queue
import threading
from collections import defaultdict

import pytest
from odd import Odd, equal

from rlcore.contracts.errors import WorkerError
from rlcore.placement.routes import WeightRoute
from rlcore.transport.layout import Announcement, ByteRange, destinations, named_weights
from rlcore.transport.transports import RouteConnections
from rlcore.transport.weights import receive_weights, send_weights
from rlcore.workers.channel import drive

SECONDS = 60.0
WHOLE = 2


class Queues:
    """The channel between threads."""

    def __init__(self) -> None:
        self.queues = defaultdict(queue.Queue)

    def send(self, keys, message) -> None:
        for key in keys:
            self.queues[key].put(message)

    def receive(self, request):
        return self.queues[request.key].get(timeout=request.timeout)


def at_once(*conversations) -> list:
    """Results of conversations, each in a thread of its own; the first error of any."""
    channel = Queues()
    results = {}
    errors = []

    def run(number, conversation) -> None:
        try:
            results[number] = drive(conversation, channel)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(conversations)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    if errors:
        raise errors[0]
    return [results[number] for number in range(len(conversations))]


@pytest.mark.parametrize("bucket", [7, 1000])
def test_over_the_network_to_several_again_and_again(bucket):
    route = WeightRoute("broadcast", ("actor", 0), (0, 1))
    connections_of = [RouteConnections(SECONDS, bucket, host="127.0.0.1") for _ in range(3)]
    readers = [Odd(-1.0), Odd(-2.0)]
    groups = []
    for version, sender in enumerate((Odd(2.5), Odd(3.5))):
        news = at_once(
            send_weights(
                sender, version=version, subset="all", routes=[route], connections=connections_of[0]
            ),
            *(
                receive_weights(
                    reader,
                    reader=rank,
                    routes=[route],
                    connections=connections_of[1 + rank],
                    timeout=SECONDS,
                )
                for rank, reader in enumerate(readers)
            ),
        )[1:]
        assert [announcement.version for announcement in news] == [version, version]
        assert (news[0].rendezvous is None) == (version == 1)  # the group is kept
        for reader in readers:
            assert all(equal(sender, reader).values())
        groups.append([connections.groups[0] for connections in connections_of])
    assert groups[0] == groups[1]


def test_two_nodes_that_need_each_others_parts_do_not_wait_in_a_circle(monkeypatch):
    """Each actor first serves its own node over the store, then the other one over the network.
    Here both hold everything; parts 0 and 1 are half of the names each."""

    def half(sent, part):
        names = list(sent.items())
        for name, tensor in names if part == WHOLE else names[part::2]:
            if tensor.numel():
                yield ByteRange(name, 0, tensor.nbytes), tensor

    monkeypatch.setattr("rlcore.transport.weights.local_shards", half)
    routes = [
        WeightRoute("object_store", ("actor", 0), (0,), part=0, number=0),
        WeightRoute("object_store", ("actor", 1), (1,), part=1, number=1),
        WeightRoute("broadcast", ("actor", 0), (1,), part=0, number=2),
        WeightRoute("broadcast", ("actor", 1), (0,), part=1, number=3),
        WeightRoute("object_store", ("rollout", 0), (2,), part=WHOLE, number=4),
    ]
    sender = Odd(2.5)
    readers = [Odd(-1.0), Odd(-2.0), Odd(-3.0)]

    def connections():
        return RouteConnections(SECONDS, 4, host="127.0.0.1")

    def reading(rank):
        mine = [route for route in routes if rank in route.readers]
        return receive_weights(
            readers[rank], reader=rank, routes=mine, connections=connections(), timeout=SECONDS
        )

    def relaying():
        news = yield from reading(0)
        yield from send_weights(
            readers[0],
            version=news.version,
            subset="all",
            routes=routes[4:],
            connections=connections(),
        )

    at_once(
        *(
            send_weights(sender, version=1, subset="all", routes=[routes[n], routes[n + 2]],
                    connections=connections())
            for n in (0, 1)
        ),
        relaying(),
        reading(1),
        reading(2),
    )  # fmt: skip
    for reader in readers:
        assert all(equal(sender, reader).values())


def announced(*spans, version=1):
    kinds = {name: kind for name, kind in whole().types.items()}
    return Announcement(version, "all", kinds, tuple(ByteRange(*span) for span in spans), 10)


def whole() -> Announcement:
    route = WeightRoute("object_store", ("actor", 0), (0,))
    talk = send_weights(
        Odd(1.0), version=1, subset="all", routes=[route], connections=RouteConnections(1.0, 10)
    )
    return next(talk).message


REST = [("head", 0, 10), ("scale", 0, 4), ("mask", 0, 3), ("count", 0, 16)]


def test_parts_of_a_tensor_from_two_senders_are_its_bytes():
    """weight: 24 bytes; the second sender has its last row of 12."""
    reader = Odd(0.0)
    first, second = destinations(
        [announced(("weight", 0, 12), *REST), announced(("weight", 12, 12))], reader
    )
    assert [len(piece) for piece in first] == [12, 10, 4, 3, 16]
    assert second[0].data_ptr() == reader.weight.data_ptr() + 12
    assert set(named_weights(reader, "all")) - {"none"} == {"weight", *(name for name, *_ in REST)}


@pytest.mark.parametrize(
    ("spans", "sent"),
    [
        ([], "none"),
        ([("weight", 0, 12)], "0-11"),
        ([("weight", 0, 12), ("weight", 8, 16)], "0-11, 8-23"),
        ([("weight", 0, 24), ("weight", 0, 24)], "0-23, 0-23"),
    ],
)
def test_bytes_that_are_missing_or_sent_twice_are_refused(refused, spans, sent):
    with refused(WorkerError, "weight", 24, sent):
        destinations([announced(*spans, *REST)], Odd(0.0))


def test_senders_of_different_versions_are_refused(refused):
    with refused(WorkerError, "version 1", "version 2"):
        destinations([announced(*REST), announced(("weight", 0, 24), version=2)], Odd(0.0))
