"""Send the trajectory from the rollout workers to the actor ranks.

Column n goes to actor rank n modulo their number, whichever worker played it: so what an actor rank
gets does not depend on the number of rollout ranks, and each column arrives exactly once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rlcore.contracts.trajectory import Trajectory
from rlcore.rollout.columns import LIGHT, NO_DECISION, join, take
from rlcore.rollout.messages import Conversation, Receive, Send
from rlcore.transport.arrays import Packed, pack_all, unpack_all

PIECE_BYTES = 16 * 2**20  # of inputs and replay in one message, unless one column has more;
# a queue holds a few, so every rollout rank has several of them in the store


@dataclass(frozen=True)
class Piece:
    """Some columns of a trajectory; `last` of those that this sender has for this receiver. All
    empty: the sender gathered none, and knows no shapes."""

    last: bool
    light: dict[str, Packed]
    inputs: dict[str, Packed]
    replay: dict[str, Packed]


def hand_over(
    trajectory: Trajectory | None,
    numbers: Sequence[int],
    keys: Sequence[str],
    piece: int = PIECE_BYTES,
) -> Conversation:
    """Send every column to the actor rank it belongs to.

    Args:
        trajectory: what this rollout rank gathered; None: no column came its way.
        numbers: canonical numbers of its columns, by place.
        keys: of the queues to the actor ranks, by rank.
        piece: bytes of inputs and replay in one message.
    """
    for rank, key in enumerate(keys):
        if trajectory is None:
            yield Send((key,), Piece(last=True, light={}, inputs={}, replay={}))
            continue
        mine = [place for place, number in enumerate(numbers) if number % len(keys) == rank]
        pieces = list(_cut(trajectory, mine, piece))
        for index, columns in enumerate(pieces):
            yield Send((key,), _piece(take(trajectory, columns), last=index == len(pieces) - 1))


def take_over(keys: Sequence[str], timeout: float) -> Conversation:
    """Receive this actor rank's columns; returns them as one trajectory in canonical order, which
    has none if the others got all.

    Args:
        keys: of the queues from the rollout ranks, by rank; one of them at least gathered columns.
        timeout: seconds to wait for a piece.
    """
    parts: list[Trajectory] = []
    for rank, key in enumerate(keys):
        last = False
        while not last:
            piece: Piece = yield Receive(key, timeout, f"the trajectory of rollout worker {rank}")
            last = piece.last
            if piece.light:
                inputs, replay = unpack_all(piece.inputs), unpack_all(piece.replay)
                parts.append(Trajectory(**unpack_all(piece.light), inputs=inputs, replay=replay))
    return join(parts)


def _piece(part: Trajectory, *, last: bool) -> Piece:
    light = pack_all({name: getattr(part, name) for name in LIGHT})
    return Piece(last, light, pack_all(part.inputs), pack_all(part.replay))


def _cut(trajectory: Trajectory, columns: Sequence[int], limit: int) -> Iterator[list[int]]:
    """`columns` in runs of at most `limit` bytes, or of one column that has more. At least one
    run, if an empty one: its receiver waits for it."""
    heavy = [*trajectory.inputs.values(), *trajectory.replay.values()]
    decisions = (trajectory.sample_index != NO_DECISION).sum(0).tolist()
    run: list[int] = []
    size = 0
    for column in columns:
        more = decisions[column] * sum(array[:1].nbytes for array in heavy)
        if run and size + more > limit:
            yield run
            run, size = [], 0
        run.append(column)
        size += more
    yield run
