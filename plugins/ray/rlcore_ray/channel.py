"""Implement the queues between workers in a Ray actor, and a worker's access to them.

The actor passes object references, so arrays are in shared memory and the actor never copies them.
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

PROGRESS_SECONDS = 0.5  # shortest time between two progress reports of a worker
CONTINUES = "rlcore resume RUN continues"
QUEUE_SIZE = 4  # alternating messages need 1; a larger queue only lets a sender run ahead


class WorkerLost(WorkerError):
    """A process of the run is gone."""


class ChannelActor:
    """Asynchronous Ray actor with queues. It holds object references, never the data."""

    def __init__(self) -> None:
        self._queues: dict[str, asyncio.Queue[Any]] = {}
        self._totals: Counter[str] = Counter()
        self._progress: dict[str, float] = {}
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
        """Return the next message in a list, or None after `timeout` seconds."""
        return await self._unless_broken(self._queue(key).get(), timeout)

    async def _unless_broken(self, wait: Coroutine[Any, Any, Any], timeout: float | None) -> Any:
        """Return the result of a coroutine, or None after `timeout` seconds.

        Raises:
            WorkerError: :meth:`break_off` was called.
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
        """Make all present and future :meth:`put` and :meth:`get` raise, until :meth:`clear`."""
        self._broken = reason
        self._alarm.set()

    async def beat(self, name: str, stack: str) -> None:
        """Record a heartbeat of a worker, with the stack of its main thread."""
        self._beats[name] = (time.monotonic(), stack)

    async def beats(self) -> dict[str, tuple[float, str]]:
        """Return `{worker: (seconds since its last heartbeat, stack in that heartbeat)}`."""
        now = time.monotonic()
        return {name: (now - then, stack) for name, (then, stack) in self._beats.items()}

    async def count(self, amounts: Mapping[str, int]) -> None:
        self._totals.update(amounts)

    async def report(self, values: Mapping[str, float]) -> None:
        self._progress.update(values)

    async def totals(self) -> dict[str, float]:
        return {**self._totals, **self._progress}

    async def clear(self) -> None:
        """Empty the queues and reset the counts and the broken state, between conversations."""
        self._queues.clear()
        self._totals.clear()
        self._progress.clear()
        self._broken = None
        self._alarm.clear()


class RayChannel:
    """A worker's access to the queues.

    Args:
        hub: :class:`ChannelActor` of all queues that do not belong to one env worker.

    Attributes:
        of: actors with the queues of the env workers that this worker exchanges messages with, by
            rank.
    """

    def __init__(self, hub: Any) -> None:
        self._hub = hub
        self.of: Mapping[int, Any] = {}
        self._reported = -inf

    def _at(self, key: str) -> Any:
        rank = env_rank_of(key)
        return self._hub if rank is None else self.of[rank]

    def send(self, keys: Sequence[str], message: Any) -> None:
        # Ray would resolve a reference that is an argument, but not one inside a list
        boxed = [ray.put(message)]
        self._answer([self._at(key).put.remote(key, boxed) for key in keys])

    def count(self, amounts: Mapping[str, int]) -> None:
        # wait for the answer, so that no count arrives after the end of the conversation
        self._answer(self._hub.count.remote(dict(amounts)))

    def report(self, values: Mapping[str, float]) -> None:
        """Report a call's progress to the driver, at most once per :data:`PROGRESS_SECONDS`."""
        now = time.monotonic()
        if now - self._reported >= PROGRESS_SECONDS:
            self._answer(self._hub.report.remote(dict(values)))
            self._reported = now

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
        except ObjectLostError:  # also raised if the owner of the object died
            raise WorkerLost(
                f"{request.waiting_for} was lost with the process that sent it"
            ) from None

    def _answer(self, refs: Any) -> Any:
        """Wait for answers of an actor.

        Raises:
            WorkerLost: the actor is gone; the message is the same in every worker.
        """
        try:
            return ray.get(refs)
        except RayActorError as error:
            raise queues_lost(error) from None


def queues_lost(error: Exception, seconds: float | None = None) -> WorkerError:
    """Make the error for a channel actor that does not answer.

    Args:
        error: error of Ray: a TimeoutError if the actor is silent, any other if it died.
        seconds: timeout that expired.
    """
    name = "the queues between workers (ChannelActor)"
    if isinstance(error, TimeoutError):
        return StuckError(
            f"{name} have not answered for {seconds:g} s (cluster.timeouts.ray)",
            hint=f"stopped, or an overloaded machine? {CONTINUES}",
        )
    return WorkerLost(f"{name} died (killed, or out of memory?)", hint=CONTINUES)
