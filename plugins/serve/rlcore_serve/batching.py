"""Answer observations that come at about the same time in one forward. Knows no network."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from rlcore.api import LoadedPolicy
from rlcore.contracts.protocols import Observation
from rlcore.contracts.rng import RowKeys


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
    """

    def __init__(
        self,
        act: Callable[[Observation, RowKeys], np.ndarray],
        connected: Callable[[], int],
        *,
        most: int,
        wait: float,
    ) -> None:
        self._act, self._connected, self._most, self._wait = act, connected, most, wait
        self._asked: asyncio.Queue[_Asked] = asyncio.Queue()
        self._thread = ThreadPoolExecutor(1, "policy")

    async def ask(self, observation: Observation, key: tuple[int | str, ...]) -> Answer:
        """The actions for one row.

        Raises:
            Exception: what the policy raised at this row.
        """
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._asked.put_nowait(_Asked(observation, key, future))
        return await future

    async def run(self) -> None:
        """Answer for ever."""
        try:
            while True:
                await self._answer(await self._collect())
        finally:
            self._thread.shutdown(wait=False)

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
        loop = asyncio.get_running_loop()
        try:
            actions = await loop.run_in_executor(self._thread, self._decide, batch)
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

    def _decide(self, batch: Sequence[_Asked]) -> np.ndarray:
        joined = stacked([one.observation for one in batch])
        return self._act(joined, RowKeys(tuple(one.key for one in batch)))


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
