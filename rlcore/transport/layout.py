"""Describe what is about to be sent: the tensors, and where in them a sender's bytes belong.

Parameters and buffers are matched by name. What is sent must be exactly what the receiver has: a
weight that is missing, unexpected or of another shape is an error that names it, never ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from torch import Tensor, nn

from rlcore.contracts.errors import WorkerError
from rlcore.contracts.protocols import Policy
from rlcore.learner import dtensor
from rlcore.terminal.text import some
from rlcore.transport.arrays import as_bytes, dtype_name
from rlcore.transport.network import Address

Subset = Literal["all", "trained"]
"""Which weights are sent: all, or those an update may change (trained parameters, buffers)."""


class Kind(NamedTuple):
    """What a tensor is apart from its numbers."""

    dtype: str
    shape: tuple[int, ...]

    @classmethod
    def of(cls, tensor: Tensor) -> Kind:
        return cls(dtype_name(tensor), tuple(tensor.shape))

    def __str__(self) -> str:
        return f"{self.dtype} {list(self.shape)}"


class Span(NamedTuple):
    """Bytes of a tensor: `size` of them, from `first` on."""

    name: str
    first: int
    size: int


@dataclass(frozen=True)
class Announcement:
    """What a sender is about to send.

    Attributes:
        version: what the weights are called.
        subset: which of them.
        kinds: of all tensors of the subset, by name, whoever sends them.
        spans: what this sender sends of them, in the order of its bytes.
        bucket: bytes of one message; the last one has the rest.
        meeting: where a group meets that is to be formed first, if any.
    """

    version: int
    subset: Subset
    kinds: dict[str, Kind]
    spans: tuple[Span, ...]
    bucket: int
    meeting: Address | None = None

    @property
    def counts(self) -> list[int]:
        """Bytes of each message."""
        left = sum(span.size for span in self.spans)
        whole, rest = divmod(left, self.bucket) if left else (0, 0)
        return [self.bucket] * whole + [rest] * bool(rest)


def weights(policy: Policy, subset: Subset) -> dict[str, Tensor]:
    """Parameters and buffers of a subset by name, buffers that are not saved included."""
    assert isinstance(policy, nn.Module)  # as every policy is
    parameters = dict(policy.named_parameters())
    if subset == "trained":
        trained = {id(one) for group in policy.parameter_groups().values() for one in group}
        parameters = {name: one for name, one in parameters.items() if id(one) in trained}
    return {**parameters, **dict(policy.named_buffers())}


def held(sent: Mapping[str, Tensor], part: int) -> Iterator[tuple[Span, Tensor]]:
    """What a process sends that holds a shard of each sharded tensor, with its place among all of
    them; of others all, if it is the first shard."""
    for name, tensor in sent.items():
        sharded = dtensor.is_sharded(tensor)
        own = dtensor.part(tensor)
        if not own.numel() or (part and not sharded):
            continue
        row = own[:1].nbytes if sharded else 0
        yield Span(name, dtensor.first_row(tensor) * row, own.nbytes), own


AtHand = Callable[[Tensor], Tensor]
"""Gives the memory in which a weight can be read and written now, as tensors may be away from their
device: :meth:`rlcore.learner.offload.HostCopies.at_hand`."""


def as_it_is(weight: Tensor) -> Tensor:
    """Of weights that are where they compute."""
    return weight


def fitting(
    news: Sequence[Announcement], policy: Policy, at_hand: AtHand = as_it_is
) -> list[list[Tensor]]:
    """The memory that the senders' bytes belong in: for each sender its spans, as uint8 `[n]` over
    the policy's own memory.

    Raises:
        WorkerError: names, shapes or dtypes are not exactly the policy's, senders have different
            versions, or together don't send each byte once; nothing was written.
    """
    first = news[0]
    mine = weights(policy, first.subset)
    _require_same(first, {name: Kind.of(tensor) for name, tensor in mine.items()})
    for other in news[1:]:
        if (other.version, other.subset, other.kinds) != (first.version, first.subset, first.kinds):
            raise WorkerError(
                f"actor workers send different weights: version {first.version} "
                f"({first.subset}) and version {other.version} ({other.subset})"
            )
    memory = {name: as_bytes(at_hand(tensor)) for name, tensor in mine.items()}
    _require_each_byte_once(news, memory)
    return [[memory[name][first : first + size] for name, first, size in one.spans] for one in news]


def _require_each_byte_once(news: Sequence[Announcement], memory: Mapping[str, Tensor]) -> None:
    sent: dict[str, list[Span]] = {name: [] for name in memory}
    for one in news:
        for span in one.spans:
            sent[span.name].append(span)
    for name, spans in sent.items():
        end = 0
        for span in sorted(spans, key=lambda span: span.first):
            if span.first != end:
                break
            end += span.size
        else:
            if end == len(memory[name]):
                continue
        raise WorkerError(
            f"actor workers don't send each byte of {name} once: {len(memory[name])} bytes, sent "
            + (", ".join(f"{one.first}-{one.first + one.size - 1}" for one in spans) or "none")
        )


def _require_same(news: Announcement, mine: dict[str, Kind]) -> None:
    theirs = news.kinds
    other = [
        f"{name} ({theirs[name]} there, {mine[name]} here)"
        for name in theirs
        if name in mine and theirs[name] != mine[name]
    ]
    problems = [
        f"{word} {some(names)}"
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
