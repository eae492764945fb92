"""Weights of a version from the actor to every rollout worker: strict, in bounded buckets.

    announcement   version, names, shapes and dtypes      checked before a byte is written
    bucket ...     the tensors' bytes, one after another  written in place

Parameters and buffers go by name. What is sent must be exactly what the receiver has: a weight
that is missing, unexpected or of another shape is an error that names it, never passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from torch import Tensor, nn

from rlcore.errors import WorkerError
from rlcore.learner.parts import whole
from rlcore.protocols import Policy
from rlcore.rollout.messages import Conversation, Publish, Receive
from rlcore.sync.arrays import as_bytes, borrow, dtype_name

BUCKET_BYTES = 128 * 2**20  # of one message; all readers share its memory
NAMED_AT_MOST = 8  # names of one kind in an error

Subset = Literal["all", "trained"]
"""Which weights are sent: all, or those an update may change (trained parameters, buffers)."""


class Kind(NamedTuple):
    """What a tensor is apart from its numbers."""

    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype} {list(self.shape)}"


@dataclass(frozen=True)
class Announcement:
    """What is about to be sent: tensors in the order of their bytes."""

    version: int
    subset: Subset
    kinds: dict[str, Kind]


def weights(policy: Policy, subset: Subset) -> dict[str, Tensor]:
    """Parameters and buffers of a subset by name, buffers that are not saved included."""
    assert isinstance(policy, nn.Module)  # as every policy is
    parameters = dict(policy.named_parameters())
    if subset == "trained":
        trained = {id(one) for group in policy.parameter_groups().values() for one in group}
        parameters = {name: one for name, one in parameters.items() if id(one) in trained}
    return {**parameters, **dict(policy.named_buffers())}


def publish(
    policy: Policy,
    *,
    version: int,
    subset: Subset,
    keys: Sequence[str],
    bucket: int = BUCKET_BYTES,
) -> Conversation:
    """Send the weights to all readers.

    Args:
        version: what they are called.
        subset: which of them.
        keys: of the queues to the readers; none where another rank sends: this one only gives its
            parts of what ranks divide.
        bucket: bytes in one message.
    """
    sent = weights(policy, subset)
    if not keys:
        for tensor in sent.values():
            whole(tensor)
        return
    kinds = {name: _kind(tensor) for name, tensor in sent.items()}
    yield Publish(tuple(keys), Announcement(version, subset, kinds))
    for data in _buckets(sent.values(), bucket):
        yield Publish(tuple(keys), data)


def pull(policy: Policy, *, key: str, timeout: float) -> Conversation:
    """Take over what is published, in place; returns its version.

    Args:
        key: of the queue to this reader.
        timeout: seconds to wait for a bucket.

    Raises:
        WorkerError: names, shapes or dtypes are not exactly the policy's; nothing was written.
    """
    waiting_for = "the actor's weights"
    news: Announcement = yield Receive(key, timeout, waiting_for)
    mine = weights(policy, news.subset)
    _check(news, {name: _kind(tensor) for name, tensor in mine.items()})
    data, place = np.empty(0, np.uint8), 0
    for name in news.kinds:
        target, done = as_bytes(mine[name]), 0
        while done < len(target):
            if place == len(data):
                data, place = (yield Receive(key, timeout, waiting_for)), 0
            count = min(len(target) - done, len(data) - place)
            target[done : done + count] = borrow(data[place : place + count])
            done, place = done + count, place + count
    return news.version


def _buckets(tensors: Iterable[Tensor], size: int) -> Iterator[np.ndarray]:
    """All bytes in order, in arrays of `size` bytes; the last one may be shorter."""
    data, place = np.empty(size, np.uint8), 0
    for tensor in tensors:
        source, done = as_bytes(whole(tensor)), 0
        while done < len(source):
            count = min(len(source) - done, size - place)
            data[place : place + count] = source[done : done + count].cpu().numpy()
            done, place = done + count, place + count
            if place == size:
                yield data
                data, place = np.empty(size, np.uint8), 0
    if place:
        yield data[:place]


def _kind(tensor: Tensor) -> Kind:
    return Kind(dtype_name(tensor), tuple(tensor.shape))


def _check(news: Announcement, mine: dict[str, Kind]) -> None:
    theirs = news.kinds
    other = [
        f"{name} ({theirs[name]} there, {mine[name]} here)"
        for name in theirs
        if name in mine and theirs[name] != mine[name]
    ]
    problems = [
        f"{word} {_listed(names)}"
        for word, names in (
            ("missing:", [name for name in mine if name not in theirs]),
            ("unexpected:", [name for name in theirs if name not in mine]),
            ("of another kind:", other),
        )
        if names
    ]
    if problems:
        raise WorkerError(
            f"the actor's weights (version {news.version}) do not fit the policy that acts; "
            + "; ".join(problems),
            hint="actor and rollout must build the same policy: its factory may depend on the "
            "settings alone",
        )


def _listed(names: Sequence[str]) -> str:
    more = len(names) - NAMED_AT_MOST
    return ", ".join(names[:NAMED_AT_MOST]) + (f" and {more} more" if more > 0 else "")
