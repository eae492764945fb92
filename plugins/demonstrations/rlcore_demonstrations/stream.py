"""Samples whose frames are read ahead of the trainer, in processes of their own.

The trainer says which samples its next batches have; so many batches are on their way, and no more.
What was read is kept up to a number of bytes. Which samples a batch has, and their values, depend
on neither: they are those of :func:`rlcore_demonstrations.fit.supervised_samples`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from rlcore.contracts.protocols import Demonstration, Policy
from rlcore_demonstrations.decoders import Decoders
from rlcore_demonstrations.frames import LazyFrames

Batch = tuple[dict[str, Tensor], Tensor, Tensor]
"""Inputs, actions and mask of some samples."""
AHEAD = 8
"""Batches that are read before they are asked for."""
ACTIONS, MASK = "sft/actions", "sft/mask"  # beside what the policy names


@dataclass(frozen=True)
class _Job:
    """Samples of one demonstration: where they stand in the batch, and the demonstration with
    their steps alone; its frames come."""

    places: np.ndarray
    rows: np.ndarray
    demo: Demonstration
    frames: Future[dict[str, np.ndarray]]


class StreamedSamples:
    """Every frame of every demonstration as a sample, in order. See
    :class:`rlcore.demonstrations.datasets.SupervisedSamples`.

    Args:
        policy: prepares them.
        demos: at least one, with their numbers in memory.
        decoders: that read frames, also for others.
        memory: bytes of samples that are kept.

    Attributes:
        waited: seconds that the trainer has waited for batches.
    """

    def __init__(
        self, policy: Policy, demos: Sequence[Demonstration], decoders: Decoders, *, memory: float
    ) -> None:
        self._policy, self._demos, self._memory = policy, demos, memory
        counts = [len(demo.frame_steps) for demo in demos]
        self._ends = np.cumsum(counts)
        self.weights = np.repeat([demo.weight for demo in demos], counts)
        self._decoders = decoders
        self._thread = ThreadPoolExecutor(1, "samples")  # alone reads and writes what is kept
        self._kept: dict[str, np.ndarray] = {}
        self._have = np.zeros(len(self), bool)
        self.waited = 0.0

    def __len__(self) -> int:
        return int(self._ends[-1])

    def batches(self, rows: Iterable[Tensor]) -> Iterator[Batch]:
        """The samples of each batch, in order; the first ones are read from now on.

        Raises:
            CheckpointError: a file is missing or damaged.
        """
        begun = (self._begun(one.numpy()) for one in rows)
        return self._in_order(deque(islice(begun, AHEAD)), begun)

    def close(self) -> None:
        """Give up what is not read yet."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _in_order(
        self, coming: deque[Future[Batch]], more: Iterator[Future[Batch]]
    ) -> Iterator[Batch]:
        for one in more:
            coming.append(one)
            yield self._awaited(coming.popleft())
        while coming:
            yield self._awaited(coming.popleft())

    def _awaited(self, batch: Future[Batch]) -> Batch:
        begin = time.monotonic()
        found = batch.result()
        self.waited += time.monotonic() - begin
        return found

    def _begun(self, rows: np.ndarray) -> Future[Batch]:
        places = np.flatnonzero(~self._have[rows])
        numbers = np.searchsorted(self._ends, rows[places], side="right")
        jobs = []
        for number in np.unique(numbers):
            mine = places[numbers == number]
            mine = mine[np.argsort(rows[mine])]
            demo = self._demos[number]
            which = rows[mine] - (self._ends[number] - len(demo.frame_steps))
            if isinstance(demo.frames, LazyFrames):
                frames = self._decoders.submit(partial(demo.frames.read, which.tolist()))
            else:
                frames = Future()
                frames.set_result({name: each[which] for name, each in demo.frames.items()})
            shown = replace(demo, frames={}, frame_steps=demo.frame_steps[which])
            jobs.append(_Job(mine, rows[mine], shown, frames))
        return self._thread.submit(self._made, rows, jobs)

    def _made(self, rows: np.ndarray, jobs: Sequence[_Job]) -> Batch:
        made: dict[str, np.ndarray] = {}
        for job in jobs:
            demo = replace(job.demo, frames=job.frames.result())
            inputs, actions, mask = self._policy.sft_batch(demo, range(len(job.rows)))
            for name, array in {**inputs, ACTIONS: actions, MASK: mask}.items():
                if name not in made:
                    made[name] = np.empty((len(rows), *array.shape[1:]), array.dtype)
                made[name][job.places] = array
        self._keep(rows, made, jobs)
        read = np.concatenate([job.places for job in jobs]) if jobs else np.empty(0, int)
        there = np.setdiff1d(np.arange(len(rows)), read)
        for name, array in self._kept.items():
            if name not in made:
                made[name] = np.empty((len(rows), *array.shape[1:]), array.dtype)
            made[name][there] = array[rows[there]]
        batch = {name: torch.from_numpy(array) for name, array in made.items()}
        return batch, batch.pop(ACTIONS).float(), batch.pop(MASK)

    def _keep(self, rows: np.ndarray, made: dict[str, np.ndarray], jobs: Sequence[_Job]) -> None:
        """Keep the samples of the first rows, as many as there is memory for: the system gives
        memory for what is written, not for what could be."""
        if not self._kept and made:
            size = sum(array[:1].nbytes for array in made.values())
            count = min(int(self._memory // size), len(self))
            self._kept = {
                name: np.empty((count, *array.shape[1:]), array.dtype)
                for name, array in made.items()
            }
        for job in jobs:
            some = job.rows < len(self._kept[MASK])
            for name, array in made.items():
                self._kept[name][job.rows[some]] = array[job.places[some]]
            self._have[job.rows[some]] = True
