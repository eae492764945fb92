"""Hold the queues between workers in an actor, and connect a worker with them.

The actor passes references, so arrays go through shared memory once and are never copied by it;
:mod:`rlcore_ray.queues` places such actors.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Coroutine, Mapping, Sequence
from math import inf
from typing import Any

import ray
from ray.exceptions import ObjectLostError, RayActorError

from rlcore.contracts.errors import StuckError, WorkerError
from rlcore.rollout.messages import Receive, env_rank_of

TELL_SECONDS = 0.5
QUEUE_SIZE = 4  # a ping-pong conversation needs 1; more only lets a sender run ahead


class WorkerLost(WorkerError):
    """A process of the run that is gone."""


class ChannelActor:
    """The queues, as an asynchronous Ray actor. Holds references, never the data."""

    def __init__(self) -> None:
        self._queues: dict[str, asyncio.Queue[Any]] = {}
        self._totals: Counter[str] = Counter()
        self._told: dict[str, float] = {}
        self._beats: dict[str, tuple[float, str]] = {}
        self._broken: str | None = None
        self._alarm = asyncio.Event()

    def _queue(self, key: str) -> asyncio.Queue[Any]:
        if key not in self._queues:
            self._queues[key] = asyncio.Queue(maxsize=QUEUE_SIZE)
        return self._queues[key]

    async def put(self, key: str, boxed: list[Any]) -> None:
        await self._unless_broken(self._queue(key).put(boxed), None)

    async def get(self, key: str, timeout: float) -> list[Any] | None:
        """The next message, None if none comes in time."""
        return await self._unless_broken(self._queue(key).get(), timeout)

    async def _unless_broken(self, wait: Coroutine[Any, Any, Any], timeout: float | None) -> Any:
        """What is waited for, None after `timeout` seconds.

        Raises:
            WorkerError: the conversation was broken off.
        """
        tasks = [asyncio.ensure_future(wait), asyncio.ensure_future(self._alarm.wait())]
        done, pending = await asyncio.wait(
            tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED
        )
        for task in pending:
            task.cancel()
        if self._broken is not None:
            raise WorkerError(f"the conversation was broken off: {self._broken}")
        return tasks[0].result() if tasks[0] in done else None

    async def break_off(self, reason: str) -> None:
        """End the conversation for all who wait in it, or are going to, until it is cleared."""
        self._broken = reason
        self._alarm.set()

    async def beat(self, name: str, stack: str) -> None:
        """A sign of life of a worker, and where it is in its code."""
        self._beats[name] = (time.monotonic(), stack)

    async def beats(self) -> dict[str, tuple[float, str]]:
        """`{worker: (seconds since its last sign of life, where it was then)}`."""
        now = time.monotonic()
        return {name: (now - heard, stack) for name, (heard, stack) in self._beats.items()}

    async def count(self, amounts: Mapping[str, int]) -> None:
        self._totals.update(amounts)

    async def tell(self, values: Mapping[str, float]) -> None:
        self._told.update(values)

    async def totals(self) -> dict[str, float]:
        return {**self._totals, **self._told}

    async def clear(self) -> None:
        """Between conversations: nothing may be left in the queues, counts start at 0."""
        self._queues.clear()
        self._totals.clear()
        self._told.clear()
        self._broken = None
        self._alarm.clear()


class RayChannel:
    """A worker's end of the queues.

    Args:
        hub: the :class:`ChannelActor` of all queues that are no env worker's own.

    Attributes:
        of: those with the queues of the env workers that this worker talks to, by their rank.
    """

    def __init__(self, hub: Any) -> None:
        self._hub = hub
        self.of: Mapping[int, Any] = {}
        self._told = -inf

    def _at(self, key: str) -> Any:
        rank = env_rank_of(key)
        return self._hub if rank is None else self.of[rank]

    def send(self, keys: Sequence[str], message: Any) -> None:
        # boxed in a list, a reference travels as a reference instead of being resolved
        boxed = [ray.put(message)]
        self._answer([self._at(key).put.remote(key, boxed) for key in keys])

    def count(self, amounts: Mapping[str, int]) -> None:
        # waited for, so that no count arrives after its conversation has ended
        self._answer(self._hub.count.remote(dict(amounts)))

    def tell(self, values: Mapping[str, float]) -> None:
        """Let the driver know how a call gets on; more often than it looks is of no use."""
        now = time.monotonic()
        if now - self._told >= TELL_SECONDS:
            self._answer(self._hub.tell.remote(dict(values)))
            self._told = now

    def receive(self, request: Receive) -> Any:
        boxed = self._answer(self._at(request.key).get.remote(request.key, request.timeout))
        if boxed is None:
            raise StuckError(
                f"waited {request.timeout:.0f} s for {request.waiting_for} and nothing came",
                hint="raise cluster.timeouts if the machine is slow; "
                "cluster.backend=local runs the same workers in one process under pdb",
            )
        try:
            return ray.get(boxed[0])
        except ObjectLostError:  # also where its owner died
            raise WorkerLost(
                f"{request.waiting_for} was lost with the process that sent it"
            ) from None

    def _answer(self, refs: Any) -> Any:
        """What the actor answers; where it is gone, everyone who asks it says the same."""
        try:
            return ray.get(refs)
        except RayActorError as error:
            raise queues_lost(error) from None


def queues_lost(error: Exception, seconds: float | None = None) -> WorkerError:
    """The error of whoever asks the channel actor in vain."""
    name = "the queues between workers (ChannelActor)"
    if isinstance(error, TimeoutError):
        return StuckError(
            f"{name} have not answered for {seconds:g} s (cluster.timeouts.ray)",
            hint="stopped, or an overloaded machine? rlcore resume RUN goes on",
        )
    return WorkerLost(f"{name} died (killed, or out of memory?)", hint="rlcore resume RUN goes on")
