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
from rlcore.contracts.specs import EnvSpec

POLL_S = 0.5  # seconds between two checks of a running forward pass
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
class PendingRequest:
    """An observation of one row that waits for its actions; `since` is its arrival in seconds."""

    observation: Observation
    key: tuple[int | str, ...]
    future: asyncio.Future[Answer]
    since: float = field(default_factory=time.perf_counter)


class Batcher:
    """Collects observations into batches and runs one forward pass at a time.

    A batch is complete when it has `max_batch` observations, when its first one has waited
    `max_wait_s` seconds, or when it has as many observations as there are connected clients.

    Args:
        act: observations of R rows and their keys -> actions float32 `[R, C, A]`.
        count_clients: returns the current number of connected clients.
        max_batch: most observations in a forward pass.
        max_wait_s: longest time in seconds that an observation waits for others.
        timeout_s: timeout of a forward pass in seconds.
    """

    def __init__(
        self,
        act: Callable[[Observation, RowKeys], np.ndarray],
        count_clients: Callable[[], int],
        *,
        max_batch: int,
        max_wait_s: float,
        timeout_s: float = math.inf,
    ) -> None:
        self._act = act
        self._count_clients = count_clients
        self._max_batch = max_batch
        self._max_wait_s = max_wait_s
        self._timeout_s = timeout_s
        self._queue: asyncio.Queue[PendingRequest] = asyncio.Queue()
        self._futures: set[asyncio.Future[Answer]] = set()
        self._error: StuckError | None = None
        self._thread = PolicyThread()

    async def submit(self, observation: Observation, key: tuple[int | str, ...]) -> Answer:
        """Return the answer to an observation of one row.

        Args:
            observation: observation with one row.
            key: key of the row's random draws.

        Raises:
            StuckError: the batcher has ended, or a forward pass timed out.
            Exception: the policy raised it for this row.
        """
        if self._error is not None:
            raise self._error
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._futures.add(future)
        future.add_done_callback(self._futures.discard)
        self._queue.put_nowait(PendingRequest(observation, key, future))
        return await future

    async def run(self) -> None:
        """Answer observations until cancelled.

        Raises:
            StuckError: a forward pass timed out; its thread can't be ended, so no further
                observation can be answered.
        """
        self._error = None
        try:
            while True:
                await self._answer_batch(await self._collect())
        except StuckError as error:
            self._error = StuckError(error.message.partition(";")[0])  # clients see no stack
            raise
        finally:
            self._error = self._error or StuckError("the server is shutting down")
            for future in self._futures:
                if not future.done():
                    future.set_exception(self._error)

    async def _collect(self) -> list[PendingRequest]:
        batch = [await self._queue.get()]
        deadline = batch[0].since + self._max_wait_s
        while len(batch) < self._max_batch:
            while len(batch) < self._max_batch and not self._queue.empty():
                batch.append(self._queue.get_nowait())
            remaining = deadline - time.perf_counter()
            if len(batch) >= min(self._max_batch, self._count_clients()) or remaining <= 0:
                break
            try:
                batch.append(await asyncio.wait_for(self._queue.get(), remaining))
            except asyncio.TimeoutError:
                break
        # the future of a client that disconnected is done
        return [request for request in batch if not request.future.done()]

    async def _answer_batch(self, batch: list[PendingRequest]) -> None:
        if not batch:
            return
        started = time.perf_counter()
        try:
            actions = await self._forward(batch)
        except StuckError:
            raise
        except Exception as error:
            if len(batch) > 1:  # run each row alone, so that only the faulty one gets the error
                for request in batch:
                    await self._answer_batch([request])
            elif not batch[0].future.done():
                batch[0].future.set_exception(error)
            return
        infer_ms = 1e3 * (time.perf_counter() - started)
        for request, chunk in zip(batch, actions, strict=True):
            if not request.future.done():
                wait_ms = 1e3 * (started - request.since)
                request.future.set_result(Answer(chunk, wait_ms, infer_ms, len(batch)))

    async def _forward(self, batch: Sequence[PendingRequest]) -> np.ndarray:
        """Run a forward pass in the policy's thread and return its actions, float32 `[R, C, A]`.

        A thread can't be ended from outside: one that hangs is abandoned and ends with the process.

        Raises:
            StuckError: the forward pass timed out.
        """
        forward = self._thread.call(lambda: self._select_actions(batch))
        remaining = self._timeout_s
        while not forward.done():
            started = time.monotonic()
            await asyncio.wait([forward], timeout=POLL_S)
            # the time in which the process itself was stopped (Ctrl-Z) does not count
            remaining -= min(time.monotonic() - started, 2 * POLL_S)
            if not forward.done() and remaining <= 0:
                raise StuckError(
                    f"the policy has not finished a forward pass of {len(batch)} observations "
                    f"within {self._timeout_s:g} s (serve.forward_s); its stack:\n"
                    f"{self._thread.stack()}",
                    hint="restart the server; raise serve.forward_s if forward passes take long",
                )
        return forward.result()

    def _select_actions(self, batch: Sequence[PendingRequest]) -> np.ndarray:
        observation = concatenate_observations([request.observation for request in batch])
        return self._act(observation, RowKeys(tuple(request.key for request in batch)))


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

        def set_result(value: np.ndarray | None, error: Exception | None) -> None:
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
                loop.call_soon_threadsafe(set_result, value, error)

        self._calls.put(run)
        return result

    def stack(self) -> str:
        """Return the innermost frames of the thread's current stack, as text."""
        frame = sys._current_frames().get(self._thread.ident or 0)
        stack = traceback.extract_stack(frame)[-STACK_FRAMES:] if frame is not None else []
        return "".join(traceback.format_list(stack)).rstrip()

    def _work(self) -> None:
        while True:
            self._calls.get()()


def concatenate_observations(rows: Sequence[Observation]) -> Observation:
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


def blank_observation(spec: EnvSpec) -> Observation:
    """Return an observation of one row of an env, of black frames and zeros."""
    return {
        "cameras": {
            camera.name: np.zeros((1, camera.height, camera.width, 3), np.uint8)
            for camera in spec.cameras
        },
        "states": np.zeros((1, spec.state_dim), np.float32),
        "task_descriptions": [spec.instructions[0]],
        "elapsed": np.zeros(1, np.float32),
    }


def action_function(
    policy: LoadedPolicy, *, deterministic: bool, forward_batch: int | None
) -> Callable[[Observation, RowKeys], np.ndarray]:
    """Return the function by which a loaded policy selects actions for a batch.

    Actions are clipped to the ranges of the env's action channels, as the env itself would do.

    Args:
        deterministic: act without exploration noise.
        forward_batch: rows of each forward pass, padded to this number; None for the batch as it
            is.
    """
    low = np.array(policy.env_spec.action_low, np.float32)
    high = np.array(policy.env_spec.action_high, np.float32)

    def select_actions(observation: Observation, keys: RowKeys) -> np.ndarray:
        actions = policy.select_actions(observation, keys, deterministic, forward_batch)
        return np.clip(actions, low, high)

    return select_actions
