"""Prefetch samples for supervised training; separate processes read their frames.

The trainer gives the sample numbers of its next batches, of which AHEAD are prefetched. Samples
that were read are cached up to a number of bytes. Neither changes the samples of a batch or their
values, which equal those of :func:`rlcore.learner.fit_demonstrations.supervised_samples`.
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
from rlcore.demonstrations.decoders import Decoders
from rlcore.demonstrations.frames import LazyFrames

Batch = tuple[dict[str, Tensor], Tensor, Tensor]
"""Inputs, actions and mask of a batch of samples."""
AHEAD = 8
"""Number of batches that are prefetched."""
# names by which actions and masks are cached with the policy's inputs
ACTIONS = "sft/actions"
MASK = "sft/mask"


@dataclass(frozen=True)
class _Job:
    """The samples of one demonstration in a batch.

    Attributes:
        places: int64, positions of the samples in the batch.
        rows: int64, numbers of the samples.
        demo: the demonstration with the steps of these samples alone, without frames.
        frames: its frames by camera, once they are read.
    """

    places: np.ndarray
    rows: np.ndarray
    demo: Demonstration
    frames: Future[dict[str, np.ndarray]]


class StreamedSamples:
    """One sample for each frame of each demonstration, in order, prefetched. See
    :class:`rlcore.demonstrations.datasets.SupervisedSamples`.

    Args:
        policy: prepares the samples.
        demos: at least one demonstration, with states and actions in memory.
        decoders: processes that read frames; they may be shared.
        memory: most bytes of samples to cache.

    Attributes:
        weights: float `[samples]`, the weight of each sample's demonstration.
        waited: seconds that the trainer has waited for batches.
    """

    def __init__(
        self, policy: Policy, demos: Sequence[Demonstration], decoders: Decoders, *, memory: float
    ) -> None:
        self._policy = policy
        self._demos = demos
        self._memory = memory
        counts = [len(demo.frame_steps) for demo in demos]
        self._ends = np.cumsum(counts)
        self.weights = np.repeat([demo.weight for demo in demos], counts)
        self._decoders = decoders
        # the only thread that accesses the cached samples
        self._thread = ThreadPoolExecutor(1, "samples")
        self._cache: dict[str, np.ndarray] = {}
        self._is_cached = np.zeros(len(self), bool)
        self.waited = 0.0

    def __len__(self) -> int:
        return int(self._ends[-1])

    def batches(self, rows: Iterable[Tensor]) -> Iterator[Batch]:
        """Return the batches in order; the call itself starts to read the first ones.

        Raises:
            CheckpointError: a file is missing or damaged.
        """
        pending = (self._start(numbers.numpy()) for numbers in rows)
        return self._in_order(deque(islice(pending, AHEAD)), pending)

    def close(self) -> None:
        """Cancel the reads that have not started."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _in_order(
        self, started: deque[Future[Batch]], pending: Iterator[Future[Batch]]
    ) -> Iterator[Batch]:
        """Yield the started batches in order, and start another one before each."""
        for batch in pending:
            started.append(batch)
            yield self._await(started.popleft())
        while started:
            yield self._await(started.popleft())

    def _await(self, batch: Future[Batch]) -> Batch:
        begin = time.monotonic()
        result = batch.result()
        self.waited += time.monotonic() - begin
        return result

    def _start(self, rows: np.ndarray) -> Future[Batch]:
        """Start to read the frames of those samples of a batch that are not cached."""
        places = np.flatnonzero(~self._is_cached[rows])
        numbers = np.searchsorted(self._ends, rows[places], side="right")
        jobs = []
        for number in np.unique(numbers):
            own_places = places[numbers == number]
            own_places = own_places[np.argsort(rows[own_places])]
            demo = self._demos[number]
            frame_indices = rows[own_places] - (self._ends[number] - len(demo.frame_steps))
            if isinstance(demo.frames, LazyFrames):
                frames = self._decoders.submit(partial(demo.frames.read, frame_indices.tolist()))
            else:
                frames = Future()
                frames.set_result(
                    {name: array[frame_indices] for name, array in demo.frames.items()}
                )
            part = replace(demo, frames={}, frame_steps=demo.frame_steps[frame_indices])
            jobs.append(_Job(own_places, rows[own_places], part, frames))
        return self._thread.submit(self._assemble, rows, jobs)

    def _assemble(self, rows: np.ndarray, jobs: Sequence[_Job]) -> Batch:
        """Return a batch of the samples that `jobs` read and of cached samples."""
        arrays: dict[str, np.ndarray] = {}
        for job in jobs:
            demo = replace(job.demo, frames=job.frames.result())
            inputs, actions, mask = self._policy.sft_batch(demo, range(len(job.rows)))
            for name, array in {**inputs, ACTIONS: actions, MASK: mask}.items():
                if name not in arrays:
                    arrays[name] = np.empty((len(rows), *array.shape[1:]), array.dtype)
                arrays[name][job.places] = array
        self._store(arrays, jobs)
        read = np.concatenate([job.places for job in jobs]) if jobs else np.empty(0, int)
        cached = np.setdiff1d(np.arange(len(rows)), read)
        for name, array in self._cache.items():
            if name not in arrays:
                arrays[name] = np.empty((len(rows), *array.shape[1:]), array.dtype)
            arrays[name][cached] = array[rows[cached]]
        batch = {name: torch.from_numpy(array) for name, array in arrays.items()}
        return batch, batch.pop(ACTIONS).float(), batch.pop(MASK)

    def _store(self, arrays: dict[str, np.ndarray], jobs: Sequence[_Job]) -> None:
        """Cache the first samples, as many as fit into `memory`.

        np.empty reserves address space for all of them, but the system allocates a page only when
        it is written.
        """
        if not self._cache and arrays:
            size = sum(array[:1].nbytes for array in arrays.values())
            count = min(int(self._memory // size), len(self))
            self._cache = {
                name: np.empty((count, *array.shape[1:]), array.dtype)
                for name, array in arrays.items()
            }
        for job in jobs:
            fits = job.rows < len(self._cache[MASK])
            for name, array in arrays.items():
                self._cache[name][job.rows[fits]] = array[job.places[fits]]
            self._is_cached[job.rows[fits]] = True
