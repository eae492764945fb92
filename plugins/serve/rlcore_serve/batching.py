"""Answer observations that come at about the same time in one forward. Knows no network."""

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

TICK = 0.5  # seconds between two looks at a forward
STACK_FRAMES = 5  # innermost ones of the policy's thread, in an error


@dataclass(frozen=True)
class Answer:
    """Actions for one observation.

    Attributes:
        actions: float32 `[C, A]`.
        wait_ms: from its arrival to the beginning of its forward.
        infer_ms: of that forward.
        batch: observations in it.
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
    """Collects observations, at most `most` and at most `wait` seconds, and no longer than until
    each connected client has one here; one forward computes at a time.

    Args:
        act: observations of R rows and their keys -> actions float32 `[R, C, A]`.
        connected: number of clients at present.
        most: observations in a forward.
        wait: seconds that an observation waits for others.
        longest: seconds that a forward may take.
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
        """The actions for one row.

        Raises:
            Exception: what the policy raised at this row; StuckError: nothing is answered any
                more.
        """
        if self._ended is not None:
            raise self._ended
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._open.add(future)
        future.add_done_callback(self._open.discard)
        self._asked.put_nowait(_Asked(observation, key, future))
        return await future

    async def run(self) -> None:
        """Answer for ever.

        Raises:
            StuckError: a forward does not return, so that nothing can be answered any more.
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
        return [one for one in batch if not one.future.done()]  # a client that left

    async def _answer(self, batch: list[_Asked]) -> None:
        if not batch:
            return
        begin = time.perf_counter()
        try:
            actions = await self._forward(batch)
        except StuckError:
            raise
        except Exception as error:
            if len(batch) > 1:  # whose fault it is shows when each is asked alone
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
        """Decide in the policy's thread. It can't be ended from outside: one that hangs is
        abandoned, and ends with the process."""
        forward = self._thread.call(lambda: self._decide(batch))
        left = self._longest
        while not forward.done():
            begin = time.monotonic()
            await asyncio.wait([forward], timeout=TICK)
            # a process that was stopped and goes on (Ctrl-Z) did not wait meanwhile
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
    """One thread for all forwards: torch keeps a pool of threads for each that calls it. The
    process does not wait for it when it ends."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="policy", daemon=True)
        self._thread.start()

    def call(self, function: Callable[[], np.ndarray]) -> asyncio.Future[np.ndarray]:
        """What the function returns or raises; from the event loop's own thread."""
        loop = asyncio.get_running_loop()
        result: asyncio.Future[np.ndarray] = loop.create_future()

        def hand_over(value: np.ndarray | None, error: Exception | None) -> None:
            if result.done():  # nobody waits any more
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
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(hand_over, value, error)

        self._calls.put(run)
        return result

    def place(self) -> str:
        """Where it is at present: its innermost frames."""
        frame = sys._current_frames().get(self._thread.ident or 0)
        stack = traceback.extract_stack(frame)[-STACK_FRAMES:] if frame is not None else []
        return "".join(traceback.format_list(stack)).rstrip()

    def _work(self) -> None:
        while True:
            self._calls.get()()


def stacked(rows: Sequence[Observation]) -> Observation:
    """One observation of all rows, those of each in order."""
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
    """How a loaded policy answers a batch."""
    return lambda observation, keys: policy.select_actions(
        observation, keys, deterministic, forward_batch
    )
