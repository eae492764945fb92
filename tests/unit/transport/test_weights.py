"""Weights on their way: every byte, every name, whatever the bucket; else an error."""

from __future__ import annotations

import pytest
import torch
from odd import Odd, equal
from torch import nn

from rlcore.contracts.errors import WorkerError
from rlcore.placement.routes import WeightRoute
from rlcore.rollout.messages import Send
from rlcore.transport.layout import Announcement, named_weights
from rlcore.transport.transports import RouteConnections
from rlcore.transport.weights import receive_weights, send_weights
from rlcore.workers.channel import interleave

BYTES = 57


def send(sender, *receivers, version=3, subset="all", bucket=1000):
    routes = [WeightRoute("object_store", ("actor", 0), tuple(range(len(receivers))))]
    connections = RouteConnections(1.0, bucket)
    talks = [
        send_weights(
            sender, version=version, subset=subset, routes=routes, connections=connections
        ),
        *(
            receive_weights(
                receiver, reader=rank, routes=routes, connections=connections, timeout=1.0
            )
            for rank, receiver in enumerate(receivers)
        ),
    ]
    return [news.version for news in interleave(talks)[1:]]


@pytest.mark.parametrize("bucket", [1, 7, 24, 57, 1000])
def test_all_readers_get_every_byte_in_place(bucket):
    sender = Odd(2.5)
    readers = [Odd(-1.0), Odd(-2.0)]
    place = readers[0].weight.data_ptr()
    assert send(sender, *readers, bucket=bucket) == [3, 3]
    for reader in readers:
        assert all(equal(sender, reader).values())
    assert readers[0].weight.data_ptr() == place
    assert readers[0].weight.requires_grad and not readers[0].scale.requires_grad


@pytest.mark.parametrize(("bucket", "count"), [(57, 1), (56, 2), (10, 6)])
def test_no_message_is_larger_than_a_bucket(bucket, count):
    route = WeightRoute("object_store", ("actor", 0), (0,))
    connections = RouteConnections(1.0, bucket)
    talk = send_weights(Odd(1.0), version=1, subset="all", routes=[route], connections=connections)
    first, *others = list(talk)
    assert isinstance(first, Send) and isinstance(first.message, Announcement)
    sizes = [len(send.message) for send in others]
    assert len(sizes) == count and max(sizes) <= bucket and sum(sizes) == BYTES


def test_the_trained_subset_leaves_out_frozen_weights():
    sender = Odd(2.5)
    reader = Odd(-1.0)
    send(sender, reader, subset="trained")
    assert equal(sender, reader) == {
        "weight": True,
        "head": True,
        "scale": False,  # frozen
        "none": True,
        "mask": True,  # buffers change without being trained
        "count": True,
    }


def test_other_weights_are_refused_and_nothing_is_written(refused):
    sender = Odd(2.5)
    reader = Odd(-1.0)
    sender.register_buffer("extra", torch.zeros(1))
    del sender.scale
    sender.head = nn.Parameter(torch.zeros(4, dtype=torch.bfloat16))
    sender.count = sender.count.float()
    before = {name: tensor.clone() for name, tensor in named_weights(reader, "all").items()}
    missing = ("missing: scale", "unexpected: extra")
    types = ("head (bfloat16 [4] there, bfloat16 [5]", "count (float32 [2] there, int64")
    with refused(WorkerError, "version 3", *missing, *types):
        send(sender, reader)
    after = named_weights(reader, "all")
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_another_subset_is_refused(refused):
    sender = Odd(2.5)
    reader = Odd(-1.0)
    reader.parameter_groups = lambda: {"policy": [reader.weight], "value": []}
    with refused(WorkerError, "head", "none"):
        send(sender, reader, subset="trained")
