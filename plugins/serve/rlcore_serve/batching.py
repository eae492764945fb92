"""Batch observations that arrive at about the same time into one forward pass. Knows no network."""

from __future__ import annotations

import asyncio
import contextlib
import math
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from rlcore.api import LoadedPolicy
from rlcore.contracts.errors import StuckError
from rlcore.contracts.protocols import Observation
from rlcore.contracts.rng import RowKeys

TICK = 0.5  # seconds between two checks of a running forward pass
STACK_FRAMES = 5  # number of innermost stack frames of the policy's thread in an error


@dataclass(frozen=True)
class Answer:
    """Actions for one observation.

    Attributes:
        actions: float32 `[C, A]`.
        wait_ms: milliseconds from the observation's arrival to the start of its forward pass.
        infer_ms: duration of the forward pass in milliseconds.
        batch: number of observations in the forward pass.
    """

    actions: np.ndarray
    wait_ms: float
    infer_ms: float
    batch: int


@dataclass
class _Asked:
    observation: Observation
    key: tuple[int | str, ...]
    future: asyncio.Future[Answer]
    since: float = field(default_factory=time.perf_counter)


class Batcher:
    """Collects observations into batches and runs one forward pass at a time.

    A batch is complete when it has `most` observations, when its first one has waited `wait`
    seconds, or when it has as many observations as there are connected clients.

    Args:
        act: observations of R rows and their keys -> actions float32 `[R, C, A]`.
        connected: returns the current number of clients.
        most: most observations in a forward pass.
        wait: longest time in seconds that an observation waits for others.
        longest: timeout of a forward pass in seconds.
    """

    def __init__(
        self,
        act: Callable[[Observation, RowKeys], np.ndarray],
        connected: Callable[[], int],
        *,
        most: int,
        wait: float,
        longest: float = math.inf,
    ) -> None:
        self._act, self._connected, self._most, self._wait = act, connected, most, wait
        self._longest = longest
        self._asked: asyncio.Queue[_Asked] = asyncio.Queue()
        self._open: set[asyncio.Future[Answer]] = set()
        self._ended: StuckError | None = None
        self._thread = PolicyThread()

    async def ask(self, observation: Observation, key: tuple[int | str, ...]) -> Answer:
        """Return the answer to an observation of one row.

        Args:
            observation: observation with one row.
            key: key of the row's random draws.

        Raises:
            StuckError: the batcher has ended, or a forward pass timed out.
            Exception: the policy raised it for this row.
        """
        if self._ended is not None:
            raise self._ended
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._open.add(future)
        future.add_done_callback(self._open.discard)
        self._asked.put_nowait(_Asked(observation, key, future))
        return await future

    async def run(self) -> None:
        """Answer observations until cancelled.

        Raises:
            StuckError: a forward pass timed out; its thread can't be ended, so no further
                observation can be answered.
        """
        self._ended = None
        try:
            while True:
                await self._answer(await self._collect())
        except StuckError as error:
            self._ended = StuckError(error.message.partition(";")[0])  # clients see no stack
            raise
        finally:
            self._ended = self._ended or StuckError("the server ends")
            for future in self._open:
                if not future.done():
                    future.set_exception(self._ended)

    async def _collect(self) -> list[_Asked]:
        batch = [await self._asked.get()]
        until = batch[0].since + self._wait
        while len(batch) < self._most:
            while len(batch) < self._most and not self._asked.empty():
                batch.append(self._asked.get_nowait())
            left = until - time.perf_counter()
            if len(batch) >= min(self._most, self._connected()) or left <= 0:
                break
            try:
                batch.append(await asyncio.wait_for(self._asked.get(), left))
            except asyncio.TimeoutError:
                break
        return [one for one in batch if not one.future.done()]  # done: the client disconnected

    async def _answer(self, batch: list[_Asked]) -> None:
        if not batch:
            return
        begin = time.perf_counter()
        try:
            actions = await self._forward(batch)
        except StuckError:
            raise
        except Exception as error:
            if len(batch) > 1:  # run each row alone, so that only the faulty one gets the error
                for one in batch:
                    await self._answer([one])
            elif not batch[0].future.done():
                batch[0].future.set_exception(error)
            return
        took = 1e3 * (time.perf_counter() - begin)
        for one, chunk in zip(batch, actions, strict=True):
            if not one.future.done():
                waited = 1e3 * (begin - one.since)
                one.future.set_result(Answer(chunk, waited, took, len(batch)))

    async def _forward(self, batch: Sequence[_Asked]) -> np.ndarray:
        """Run a forward pass in the policy's thread and return its actions, float32 `[R, C, A]`.

        A thread can't be ended from outside: one that hangs is abandoned and ends with the process.

        Raises:
            StuckError: the forward pass timed out.
        """
        forward = self._thread.call(lambda: self._decide(batch))
        left = self._longest
        while not forward.done():
            begin = time.monotonic()
            await asyncio.wait([forward], timeout=TICK)
            # the time in which the process itself was stopped (Ctrl-Z) does not count
            left -= min(time.monotonic() - begin, 2 * TICK)
            if not forward.done() and left <= 0:
                raise StuckError(
                    f"the policy has not returned from a forward of {len(batch)} observations "
                    f"within {self._longest:g} s (serve.forward_s); it was at:\n"
                    f"{self._thread.place()}",
                    hint="start the server again; serve.forward_s=SECONDS if forwards take so long",
                )
        return forward.result()

    def _decide(self, batch: Sequence[_Asked]) -> np.ndarray:
        joined = stacked([one.observation for one in batch])
        return self._act(joined, RowKeys(tuple(one.key for one in batch)))


class PolicyThread:
    """One thread for all forward passes, because torch has a thread pool per calling thread.

    It is a daemon thread: the process does not wait for it at exit.
    """

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="policy", daemon=True)
        self._thread.start()

    def call(self, function: Callable[[], np.ndarray]) -> asyncio.Future[np.ndarray]:
        """Run a function in the thread; return a future of its result or exception.

        Must be called in the thread of the running event loop.
        """
        loop = asyncio.get_running_loop()
        result: asyncio.Future[np.ndarray] = loop.create_future()

        def hand_over(value: np.ndarray | None, error: Exception | None) -> None:
            if result.done():  # cancelled
                return
            if error is not None:
                result.set_exception(error)
            else:
                assert value is not None
                result.set_result(value)

        def run() -> None:
            value, error = None, None
            try:
                value = function()
            except Exception as raised:
                error = raised
            with contextlib.suppress(RuntimeError):  # the event loop is closed
                loop.call_soon_threadsafe(hand_over, value, error)

        self._calls.put(run)
        return result

    def place(self) -> str:
        """Return the innermost frames of the thread's current stack, as text."""
        frame = sys._current_frames().get(self._thread.ident or 0)
        stack = traceback.extract_stack(frame)[-STACK_FRAMES:] if frame is not None else []
        return "".join(traceback.format_list(stack)).rstrip()

    def _work(self) -> None:
        while True:
            self._calls.get()()


def stacked(rows: Sequence[Observation]) -> Observation:
    """Concatenate observations into one, in order."""
    return {
        "cameras": {
            name: np.concatenate([row["cameras"][name] for row in rows])
            for name in rows[0]["cameras"]
        },
        "states": np.concatenate([row["states"] for row in rows]),
        "task_descriptions": [text for row in rows for text in row["task_descriptions"]],
        "elapsed": np.concatenate([row["elapsed"] for row in rows]),
    }


def acting(
    policy: LoadedPolicy, *, deterministic: bool, forward_batch: int | None
) -> Callable[[Observation, RowKeys], np.ndarray]:
    """Return the function by which a loaded policy selects actions for a batch.

    Args:
        deterministic: act without exploration noise.
        forward_batch: rows of each forward pass, padded to this number; None for the batch as it
            is.
    """
    return lambda observation, keys: policy.select_actions(
        observation, keys, deterministic, forward_batch
    )
