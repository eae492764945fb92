"""Send the trajectory from the rollout workers to the actor ranks.

Column n goes to actor rank n modulo the number of actor ranks, whichever rollout worker gathered
it. So an actor rank's share does not depend on the number of rollout ranks, and each column arrives
exactly once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rlcore.contracts.trajectory import Trajectory
from rlcore.rollout.columns import LIGHT, NO_DECISION, join, take
from rlcore.rollout.messages import Conversation, Receive, Send
from rlcore.transport.arrays import PackedTensor, pack_all, unpack_all

# Inputs and replay in one message; a column that has more is sent alone. The queues hold a few
# messages for each rollout rank, so this bounds what the object store holds at a time.
PIECE_BYTES = 16 * 2**20


@dataclass(frozen=True)
class Piece:
    """Some columns of a trajectory.

    A sender that gathered no column does not know the shapes: its only piece is empty.

    Attributes:
        last: the sender has no further columns for this receiver.
        light: rewards, ends, values and the like, by name.
        inputs: inputs of the policy, by name.
        replay: the policy's replay, by name.
    """

    last: bool
    light: dict[str, PackedTensor]
    inputs: dict[str, PackedTensor]
    replay: dict[str, PackedTensor]


def send_trajectory(
    trajectory: Trajectory | None,
    numbers: Sequence[int],
    keys: Sequence[str],
    piece: int = PIECE_BYTES,
) -> Conversation:
    """Send every column to the actor rank it belongs to.

    Args:
        trajectory: columns gathered by this rollout rank, or None if it gathered none.
        numbers: canonical number of each column.
        keys: queue of each actor rank, by rank.
        piece: bytes of inputs and replay in one message.
    """
    for rank, key in enumerate(keys):
        if trajectory is None:
            yield Send((key,), Piece(last=True, light={}, inputs={}, replay={}))
            continue
        columns_of_rank = [n for n, number in enumerate(numbers) if number % len(keys) == rank]
        pieces = list(_cut(trajectory, columns_of_rank, piece))
        for index, columns in enumerate(pieces):
            yield Send((key,), _piece(take(trajectory, columns), last=index == len(pieces) - 1))


def receive_trajectory(keys: Sequence[str], timeout: float) -> Conversation:
    """Receive this actor rank's columns.

    Args:
        keys: queue of each rollout rank, by rank. At least one of them gathered columns.
        timeout: seconds to wait for a piece.

    Returns:
        one trajectory in canonical order, without columns if all belong to other ranks.
    """
    parts: list[Trajectory] = []
    for rank, key in enumerate(keys):
        last = False
        while not last:
            piece: Piece = yield Receive(key, timeout, f"the trajectory of rollout worker {rank}")
            last = piece.last
            if piece.light:
                inputs = unpack_all(piece.inputs)
                replay = unpack_all(piece.replay)
                parts.append(Trajectory(**unpack_all(piece.light), inputs=inputs, replay=replay))
    return join(parts)


def _piece(part: Trajectory, *, last: bool) -> Piece:
    light = pack_all({name: getattr(part, name) for name in LIGHT})
    return Piece(last, light, pack_all(part.inputs), pack_all(part.replay))


def _cut(trajectory: Trajectory, columns: Sequence[int], limit: int) -> Iterator[list[int]]:
    """Split columns into runs of at most `limit` bytes; a larger column is a separate run.

    Without columns there is one empty run, because the receiver waits for a last piece.
    """
    heavy = [*trajectory.inputs.values(), *trajectory.replay.values()]
    decisions = (trajectory.sample_index != NO_DECISION).sum(0).tolist()
    run: list[int] = []
    size = 0
    for column in columns:
        column_bytes = decisions[column] * sum(array[:1].nbytes for array in heavy)
        if run and size + column_bytes > limit:
            yield run
            run = []
            size = 0
        run.append(column)
        size += column_bytes
    yield run
