"""Announce a transfer of weights, and find the memory that the announced bytes belong in.

Parameters and buffers are matched by name. The receiver must have exactly the announced tensors: a
missing weight, an unexpected one or one of another shape is an error that names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from torch import Tensor, nn, no_grad

from rlcore.contracts.errors import CheckpointError, WorkerError
from rlcore.contracts.protocols import Policy
from rlcore.learner import dtensor
from rlcore.transport.arrays import byte_view, dtype_name
from rlcore.transport.network import Address
from rlcore.utils.text import abbreviate_list

Subset = Literal["all", "trained"]
"""Which weights to send: all, or those that an update may change (trained parameters, buffers)."""


class TensorType(NamedTuple):
    """A tensor's dtype and shape."""

    dtype: str
    shape: tuple[int, ...]

    @classmethod
    def of(cls, tensor: Tensor) -> TensorType:
        return cls(dtype_name(tensor), tuple(tensor.shape))

    def __str__(self) -> str:
        return f"{self.dtype} {list(self.shape)}"


class ByteRange(NamedTuple):
    """A range of a tensor's bytes: `size` bytes from offset `first`."""

    name: str
    first: int
    size: int


@dataclass(frozen=True)
class Announcement:
    """The message by which a sender announces one version of the weights.

    Attributes:
        version: number of the policy's version.
        subset: which weights are sent.
        types: dtype and shape of every tensor of the subset, by name, whichever rank sends it.
        ranges: bytes that this sender sends, in the order in which they follow.
        bucket_bytes: size of one message in bytes; the last message has the remainder.
        rendezvous: address at which a process group is formed before the first message, if one is.
    """

    version: int
    subset: Subset
    types: dict[str, TensorType]
    ranges: tuple[ByteRange, ...]
    bucket_bytes: int
    rendezvous: Address | None = None

    @property
    def message_bytes(self) -> list[int]:
        """Size of each message in bytes."""
        total = sum(byte_range.size for byte_range in self.ranges)
        whole_buckets, remainder = divmod(total, self.bucket_bytes) if total else (0, 0)
        return [self.bucket_bytes] * whole_buckets + [remainder] * bool(remainder)


def named_weights(policy: Policy, subset: Subset) -> dict[str, Tensor]:
    """Return parameters and buffers of a subset by name, including buffers that are not saved."""
    assert isinstance(policy, nn.Module)  # as every policy is
    parameters = dict(policy.named_parameters())
    if subset == "trained":
        groups = policy.parameter_groups().values()
        trained = {id(parameter) for group in groups for parameter in group}
        parameters = {
            name: parameter for name, parameter in parameters.items() if id(parameter) in trained
        }
    return {**parameters, **dict(policy.named_buffers())}


def trained_copies(policy: Policy) -> dict[str, Tensor]:
    """Return copies of the weights that an update may change, on the host, by name."""
    weights = named_weights(policy, "trained")
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in weights.items()}


def set_trained(policy: Policy, weights: Mapping[str, Tensor], source: str) -> None:
    """Set the weights that an update may change.

    Args:
        policy: the policy, which is changed in place.
        weights: the values, as :func:`trained_copies` returns them.
        source: where they come from, for the error.

    Raises:
        CheckpointError: names, shapes or dtypes are not exactly the policy's. Nothing was written.
    """
    own = named_weights(policy, "trained")
    types = [
        {name: TensorType.of(tensor) for name, tensor in tensors.items()}
        for tensors in (own, weights)
    ]
    if types[0] != types[1]:
        names = sorted(dict(types[0].items() ^ types[1].items()))
        raise CheckpointError(
            f"{source} does not fit the policy: {abbreviate_list(names)} differ in shape or dtype, "
            "or are missing on one side",
            hint="set the keys of actor.model as they were",
        )
    with no_grad():
        for name, tensor in own.items():
            tensor.copy_(weights[name])


def local_shards(sent: Mapping[str, Tensor], part: int) -> Iterator[tuple[ByteRange, Tensor]]:
    """Yield the tensors that one process sends, with the byte range of each in the whole tensor.

    A process sends its own shard of a sharded tensor. Replicated tensors are sent by the process
    with the first shard alone.

    Args:
        part: number of the process's shard.
    """
    for name, tensor in sent.items():
        sharded = dtensor.is_sharded(tensor)
        shard = dtensor.local_shard(tensor)
        if not shard.numel() or (part and not sharded):
            continue
        row_bytes = shard[:1].nbytes if sharded else 0
        yield ByteRange(name, dtensor.first_row(tensor) * row_bytes, shard.nbytes), shard


LocateWeight = Callable[[Tensor], Tensor]
"""Function that returns the memory in which a weight can be read and written now: an offloaded
weight is on the host (:meth:`rlcore.learner.offload.HostCopies.resident`)."""


def identity(weight: Tensor) -> Tensor:
    """Return the weight itself: the :data:`LocateWeight` of policies that are not offloaded."""
    return weight


def destinations(
    announcements: Sequence[Announcement], policy: Policy, locate: LocateWeight = identity
) -> list[list[Tensor]]:
    """Return the memory of the policy that each sender's bytes belong in.

    Returns:
        for each sender its byte ranges in order, as uint8 `[n]` views of the policy's weights.

    Raises:
        WorkerError: names, shapes or dtypes are not exactly the policy's, the senders announce
            different versions, or they don't send each byte exactly once. Nothing was written.
    """
    first = announcements[0]
    own = named_weights(policy, first.subset)
    _require_same(first, {name: TensorType.of(tensor) for name, tensor in own.items()})
    for announcement in announcements[1:]:
        same_version = announcement.version == first.version
        same_tensors = (announcement.subset, announcement.types) == (first.subset, first.types)
        if not same_version or not same_tensors:
            raise WorkerError(
                f"actor workers send different weights: version {first.version} "
                f"({first.subset}) and version {announcement.version} ({announcement.subset})"
            )
    memory = {name: byte_view(locate(tensor)) for name, tensor in own.items()}
    _require_each_byte_once(announcements, memory)
    return [
        [memory[name][start : start + size] for name, start, size in announcement.ranges]
        for announcement in announcements
    ]


def _require_each_byte_once(
    announcements: Sequence[Announcement], memory: Mapping[str, Tensor]
) -> None:
    sent: dict[str, list[ByteRange]] = {name: [] for name in memory}
    for announcement in announcements:
        for byte_range in announcement.ranges:
            sent[byte_range.name].append(byte_range)
    for name, ranges in sent.items():
        end = 0
        for byte_range in sorted(ranges, key=lambda byte_range: byte_range.first):
            if byte_range.first != end:
                break
            end += byte_range.size
        else:
            if end == len(memory[name]):
                continue
        raise WorkerError(
            f"actor workers don't send each byte of {name} once: {len(memory[name])} bytes, sent "
            + (", ".join(f"{first}-{first + size - 1}" for _, first, size in ranges) or "none")
        )


def _require_same(announcement: Announcement, own: dict[str, TensorType]) -> None:
    announced = announcement.types
    different = [
        f"{name} ({announced[name]} there, {own[name]} here)"
        for name in announced
        if name in own and announced[name] != own[name]
    ]
    problems = [
        f"{word} {abbreviate_list(names)}"
        for word, names in (
            ("missing:", [name for name in own if name not in announced]),
            ("unexpected:", [name for name in announced if name not in own]),
            ("of another dtype or shape:", different),
        )
        if names
    ]
    if problems:
        raise WorkerError(
            f"the actor's weights (version {announcement.version}) do not fit the rollout worker's "
            "policy; " + "; ".join(problems),
            hint="actor and rollout must build the same policy: its factory may depend on the "
            "settings alone",
        )
