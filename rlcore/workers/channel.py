"""Queues between workers: bounded, named, with a timeout that says what was waited for.

    env worker --- obs/RANK/STAGE --> rollout worker
    env worker <-- act/RANK/STAGE --- rollout worker
    rollout worker --- trajectory/RANK/RANK --> actor worker    (where these two are processes
    rollout worker <-- weights/RANK ----------- actor worker     of their own)

Neither end knows where the other one runs. Under Ray the queues live in an actor that passes
references, so arrays go through shared memory once and are never copied by it. In one process
they are deques, and :func:`interleave` runs the conversations in turn.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from rlcore.errors import WorkerError
from rlcore.rollout.messages import Conversation, Count, Publish, Receive, Send

QUEUE_SIZE = 4  # a ping-pong conversation needs 1; more only lets a sender run ahead


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
            channel.send([request.key], request.message)
        elif isinstance(request, Publish):
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
            for key in request.keys if isinstance(request, Publish) else (request.key,):
                queues[key].append(request.message)


class ChannelActor:
    """The queues, as an asynchronous Ray actor. Holds references, never the data."""

    def __init__(self) -> None:
        self._queues: dict[str, asyncio.Queue[Any]] = {}
        self._totals: Counter[str] = Counter()

    def _queue(self, key: str) -> asyncio.Queue[Any]:
        if key not in self._queues:
            self._queues[key] = asyncio.Queue(maxsize=QUEUE_SIZE)
        return self._queues[key]

    async def put(self, key: str, boxed: list[Any]) -> None:
        await self._queue(key).put(boxed)

    async def get(self, key: str, timeout: float) -> list[Any] | None:
        try:
            return await asyncio.wait_for(self._queue(key).get(), timeout)
        except asyncio.TimeoutError:
            return None

    async def count(self, amounts: Mapping[str, int]) -> None:
        self._totals.update(amounts)

    async def totals(self) -> dict[str, int]:
        return dict(self._totals)

    async def clear(self) -> None:
        """Between conversations: nothing may be left in the queues, counts start at 0."""
        self._queues.clear()
        self._totals.clear()


class RayChannel:
    """A worker's end of the queues of a :class:`ChannelActor`."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def send(self, keys: Sequence[str], message: Any) -> None:
        import ray

        # boxed in a list, a reference travels as a reference instead of being resolved
        boxed = [ray.put(message)]
        ray.get([self._actor.put.remote(key, boxed) for key in keys])

    def count(self, amounts: Mapping[str, int]) -> None:
        import ray

        # waited for, so that no count arrives after its conversation has ended
        ray.get(self._actor.count.remote(dict(amounts)))

    def receive(self, request: Receive) -> Any:
        import ray

        boxed = ray.get(self._actor.get.remote(request.key, request.timeout))
        if boxed is None:
            raise WorkerError(
                f"waited {request.timeout:.0f} s for {request.waiting_for} and nothing came",
                hint="raise cluster.timeouts if the machine is slow; "
                "cluster.backend=local runs the same workers in one process under pdb",
            )
        return ray.get(boxed[0])
