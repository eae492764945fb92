"""Connect workers by bounded, named queues, whose timeouts name the message that did not come.

    env worker --- obs/RANK/STAGE/PART --> rollout worker
    env worker <-- act/RANK/STAGE/PART --- rollout worker
    rollout worker --- trajectory/RANK/RANK --> actor worker    (these two only where rollout
    rollout worker <-- weights/ROUTE/RANK ----- actor worker     and actor are not fused)

Neither end knows where the other one runs. Between processes a backend carries the messages, and
:func:`drive` runs the conversation at each end. In one process the queues are deques, and
:func:`interleave` runs the conversations in turn.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from rlcore.contracts.errors import WorkerError
from rlcore.rollout.messages import Conversation, Count, Receive, Send


class Channel(Protocol):
    """Transport of messages between conversations; `receive` blocks."""

    def send(self, keys: Sequence[str], message: Any) -> None: ...

    def receive(self, request: Receive) -> Any: ...

    def count(self, amounts: Mapping[str, int]) -> None: ...


def drive(conversation: Conversation, channel: Channel) -> Any:
    """Run one conversation to its end over a blocking channel, and return its result."""
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
    """Run conversations in turn in one process until all have ended, and return their results.

    Args:
        on_count: called with the running totals whenever a conversation pauses or ends.

    Raises:
        WorkerError: deadlock: every remaining conversation waits for a message of another one.
    """
    queues: dict[str, deque[Any]] = defaultdict(deque)
    totals: Counter[str] = Counter()
    results: dict[int, Any] = {}
    waiting: dict[int, Receive | None] = dict.fromkeys(range(len(conversations)))
    try:
        while waiting:
            progressed = False
            for index in list(waiting):
                request = waiting[index]
                if request is not None and not queues[request.key]:
                    continue
                progressed = True
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
            if not progressed:
                requests = [request for request in waiting.values() if request is not None]
                missing = ", ".join(request.waiting_for for request in requests)
                raise WorkerError(f"deadlock: all workers wait for messages of others: {missing}")
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
    """Run a conversation until it waits for a message that was not sent yet.

    Args:
        answer: message that the conversation waited for; None at its start.
        queues: messages by key; sent messages are added.
        totals: counts are added.

    Returns:
        The request for the missing message.

    Raises:
        StopIteration: the conversation has ended; the value is its result.
    """
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
