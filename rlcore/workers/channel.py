"""Connect workers by queues: bounded, named, with a timeout that says what was waited for.

    env worker --- obs/RANK/STAGE/PART --> rollout worker
    env worker <-- act/RANK/STAGE/PART --- rollout worker
    rollout worker --- trajectory/RANK/RANK --> actor worker    (where these two are processes
    rollout worker <-- weights/ROUTE/RANK ----- actor worker     of their own)

Neither end knows where the other one runs. Between processes a backend carries the messages, each
end driven by :func:`drive`. In one process the queues are deques, and :func:`interleave` runs the
conversations in turn.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from rlcore.contracts.errors import WorkerError
from rlcore.rollout.messages import Conversation, Count, Receive, Send


class Channel(Protocol):
    """Carries messages between conversations."""

    def send(self, keys: Sequence[str], message: Any) -> None: ...

    def receive(self, request: Receive) -> Any: ...

    def count(self, amounts: Mapping[str, int]) -> None: ...


def drive(conversation: Conversation, channel: Channel) -> Any:
    """Run one conversation to its end over a blocking channel; returns its result."""
    answer = None
    while True:
        try:
            request = conversation.send(answer)
        except StopIteration as stop:
            return stop.value
        answer = None
        if isinstance(request, Send):
            channel.send(request.keys, request.message)
        elif isinstance(request, Count):
            channel.count(request.amounts)
        else:
            answer = channel.receive(request)


def interleave(
    conversations: Sequence[Conversation],
    on_count: Callable[[Mapping[str, int]], None] | None = None,
) -> list[Any]:
    """Run conversations in one process, in turn, until all have ended; returns their results.

    Args:
        on_count: called with the running totals after each count.

    Raises:
        WorkerError: all of them wait for messages that nobody will send.
    """
    queues: dict[str, deque[Any]] = defaultdict(deque)
    totals: Counter[str] = Counter()
    results: dict[int, Any] = {}
    waiting: dict[int, Receive | None] = dict.fromkeys(range(len(conversations)))
    try:
        while waiting:
            moved = False
            for index in list(waiting):
                request = waiting[index]
                if request is not None and not queues[request.key]:
                    continue
                moved = True
                answer = queues[request.key].popleft() if request is not None else None
                try:
                    waiting[index] = _run_until_receive(
                        conversations[index], answer, queues, totals
                    )
                except StopIteration as stop:
                    results[index] = stop.value
                    del waiting[index]
                if on_count is not None:
                    on_count(totals)
            if not moved:
                wants = ", ".join(r.waiting_for for r in waiting.values() if r is not None)
                raise WorkerError(f"workers wait for each other and nobody sends: {wants}")
    finally:
        for conversation in conversations:
            conversation.close()
    return [results[index] for index in range(len(conversations))]


def _run_until_receive(
    conversation: Conversation,
    answer: Any,
    queues: dict[str, deque[Any]],
    totals: Counter[str],
) -> Receive:
    while True:
        request = conversation.send(answer)
        answer = None
        if isinstance(request, Receive):
            if not queues[request.key]:
                return request
            answer = queues[request.key].popleft()
        elif isinstance(request, Count):
            totals.update(request.amounts)
        else:
            for key in request.keys:
                queues[key].append(request.message)
