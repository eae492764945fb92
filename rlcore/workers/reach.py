"""Which of the planned lanes can be had: readers try to read memory of their senders.

Processes of a node may be in containers of their own, and not every system has memory that can be
handed to others. Known before the first weights are sent, said once.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rlcore.errors import RunWarning
from rlcore.placement.lanes import Lane, through_the_store

Question = tuple[tuple[str, int], str, Mapping[str, Any]]
"""Of whom (component and rank), for what, with which arguments."""


def reachable(
    lanes: tuple[Lane, ...], ask: Callable[[Sequence[Question]], list[Any]]
) -> tuple[Lane, ...]:
    """The lanes, with the object store where memory can't be shared.

    Args:
        lanes: as planned.
        ask: puts questions to workers, all at once; gives their answers.
    """
    shared = [lane for lane in lanes if lane.way in ("device", "shared_memory")]
    if not shared:
        return lanes
    places = ask([(lane.sender, "lend", {"way": lane.way}) for lane in shared])
    ends = [
        (lane, reader, place)
        for lane, place in zip(shared, places, strict=True)
        for reader in lane.readers
    ]
    answers = ask([(("rollout", reader), "reaches", {"place": place}) for _, reader, place in ends])
    ask([(sender, "take_back", {}) for sender in {lane.sender for lane in shared}])
    unreached = defaultdict(list)
    for (lane, reader, _), reason in zip(ends, answers, strict=True):
        if reason:
            component, rank = lane.sender
            unreached[lane.number].append(reader)
            warnings.warn(
                f"rollout worker {reader} can't share memory with {component} worker {rank} "
                f"({reason}): weights go over the object store",
                RunWarning,
                stacklevel=2,
            )
    return through_the_store(lanes, unreached) if unreached else lanes
