"""Measure the seconds in which weights get from one process to another on the same card, and what
offloading to main memory and coming back takes.

    object_store  as within a node: each bucket a message, copied once into memory that both
                  processes map, as Ray's store keeps it; without Ray, so without its calls
    broadcast     as between nodes: gloo, over the loopback
    nccl          as between cards: it refuses two processes on one, and says so
    pinned        not in rlcore: page-locked memory that both processes map, no buckets
    ipc           not in rlcore: the reader copies from the sender's memory on the card

The first three run what a run's workers run (rlcore.transport). Each transfer sends other numbers,
and the reader compares all of them, outside of what is timed.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from statistics import median
from typing import Any

import numpy as np
import torch
import torch.multiprocessing
from torch import Tensor, nn

from parts.gpu.device import device, on_cuda, seconds_of
from parts.gpu.row_process import Report
from rlcore.learner.offload import HostCopies
from rlcore.placement.routes import WeightRoute
from rlcore.transport.transports import RouteConnections
from rlcore.transport.weights import receive_weights, send_weights
from rlcore.workers.channel import drive

WAYS = ("object_store", "broadcast", "pinned", "ipc", "nccl")
ON_GPUS = ("pinned", "ipc", "nccl")
Place = tuple[int, str, str]
"""Bytes of the weights, their device, the file that both processes map."""
SECONDS = 60.0  # that an end waits for the other
BUCKET = 64 * 2**20
TENSOR = 16 * 2**20  # bytes of a parameter, at most


class Weights(nn.Module):
    """Parameters of so many bytes, float32."""

    def __init__(self, size: int, device: str) -> None:
        super().__init__()
        counts = [TENSOR // 4] * (size // TENSOR) + [size % TENSOR // 4] * bool(size % TENSOR)
        self.layers = nn.ParameterList(
            nn.Parameter(torch.zeros(count, device=device), requires_grad=False) for count in counts
        )

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        return {"policy": list(self.layers), "value": []}


class Store:
    """Messages through memory that both processes map; what is no array goes over the queue."""

    def __init__(self, memory: np.ndarray, queue: Any) -> None:
        self._memory, self._queue, self._used = memory, queue, 0

    def send(self, keys: Sequence[str], message: Any) -> None:
        if isinstance(message, np.ndarray):
            place = (self._used, len(message))
            self._memory[self._used : self._used + len(message)] = message
            self._used += len(message)
            message = place
        self._queue.put(message)

    def receive(self, request: Any) -> Any:
        message = self._queue.get(timeout=request.timeout)
        if isinstance(message, tuple):
            return self._memory[message[0] : message[0] + message[1]]
        return message

    def count(self, amounts: Any) -> None:
        """Nobody looks."""


class End:
    """What sender and reader have of a way.

    Args:
        way: one of :data:`WAYS`.
        path: the file that both map.
    """

    def __init__(self, way: str, size: int, device: str, path: str, queue: Any) -> None:
        self.weights = Weights(size, device)
        self._way, self._queue = way, queue
        self._memory = np.memmap(path, np.uint8, "r+", shape=(size,))
        carried = "object_store" if way == "object_store" else "broadcast"
        self._route = WeightRoute(carried, ("actor", 0), (0,), on_gpus=way == "nccl")
        self._wiring = RouteConnections(SECONDS, BUCKET, host="127.0.0.1")
        self._theirs: list[Tensor] = []
        self._pieces: list[Tensor] = []
        if way == "pinned":
            whole = torch.from_numpy(self._memory).view(torch.float32)
            torch.cuda.check_error(
                torch.cuda.cudart().cudaHostRegister(whole.data_ptr(), whole.nbytes, 0)
            )
            self._pieces = list(whole.split([len(one) for one in self.weights.layers]))

    def share(self) -> list[Tensor]:
        """The sender's own memory, for a reader that maps it."""
        return [one.data for one in self.weights.layers] if self._way == "ipc" else []

    def take_share(self, theirs: list[Tensor]) -> None:
        self._theirs = theirs

    def send(self) -> None:
        if self._way == "pinned":
            _copy(self.weights.layers, self._pieces)
        elif self._way != "ipc":
            channel = Store(self._memory, self._queue)
            drive(
                send_weights(self.weights, version=1, subset="all", routes=(self._route,),
                        connections=self._wiring),
                channel,
            )  # fmt: skip
        self._queue.put("sent")

    def read(self) -> None:
        if self._way in ("object_store", "broadcast", "nccl"):
            channel = Store(self._memory, self._queue)
            drive(
                receive_weights(
                    self.weights, reader=0, routes=(self._route,), connections=self._wiring,
                    timeout=SECONDS,
                ),
                channel,
            )  # fmt: skip
        assert self._queue.get(timeout=SECONDS) == "sent"
        if self._way in ("pinned", "ipc"):
            _copy(self._pieces or self._theirs, self.weights.layers)
        if self.weights.layers[0].is_cuda:
            torch.cuda.synchronize()


def _copy(sources: Sequence[Tensor], targets: Sequence[Tensor]) -> None:
    with torch.no_grad():
        for source, target in zip(sources, targets, strict=True):
            target.copy_(source, non_blocking=True)
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _reader(queue: Any, answers: Any, way: str, repeats: int, ends: Sequence[Place]) -> None:
    """The other process: reads, says so, compares, says so."""
    try:
        for place in ends:
            mine = End(way, *place, queue)
            answers.put("ready")
            mine.take_share(queue.get(timeout=SECONDS))
            for number in range(repeats + 1):
                mine.read()
                answers.put("read")
                assert all(bool((one == number + 1).all()) for one in mine.weights.layers)
                answers.put("compared")
            del mine
    except Exception as error:
        answers.put(RuntimeError(f"{type(error).__name__}: {error}"))


def seconds(way: str, sizes: Sequence[int], device: str, repeats: int) -> Iterator[float]:
    """Of each size the median over repeats, after one that forms groups and touches memory for the
    first time.

    Raises:
        RuntimeError: the way doesn't work here.
    """
    context = torch.multiprocessing.get_context("spawn")
    queue, answers = context.Queue(), context.Queue()

    def expect(word: str) -> None:
        answer = answers.get(timeout=SECONDS)
        if isinstance(answer, Exception):
            raise answer
        assert answer == word

    with ExitStack() as stack:
        places = []
        for size in sizes:
            file = stack.enter_context(tempfile.NamedTemporaryFile(dir="/dev/shm"))
            file.truncate(size)
            places.append((size, device, file.name))
        words = (queue, answers, way, repeats, places)
        other = context.Process(target=_reader, args=words, daemon=True)
        other.start()
        stack.callback(other.join)
        stack.callback(other.kill)
        for place in places:
            mine = End(way, *place, queue)
            expect("ready")
            queue.put(mine.share())
            taken = []
            for number in range(repeats + 1):
                for one in mine.weights.layers:
                    one.fill_(number + 1)
                if device != "cpu":
                    torch.cuda.synchronize()
                begin = time.perf_counter()
                mine.send()
                expect("read")
                taken.append(time.perf_counter() - begin)
                expect("compared")
            yield median(taken[1:])


def ways(
    report: Report, *, quick: bool, mib: Sequence[float] = (22, 1024, 280, 2.5), repeats: int = 7
) -> None:
    """Report the seconds of each way and size; a way that does not work here says why."""
    sizes = [int(size * 2**20) // 4 * 4 for size in mib]
    for way in WAYS:
        if way in ON_GPUS and not on_cuda():
            continue
        try:
            taken = seconds(way, sizes, device().type, repeats)
            for size, found in zip(sizes, taken, strict=True):
                report(way=way, mib=size / 2**20, seconds=found)
        except Exception as error:
            report(way=way, refused=f"{type(error).__name__}: {error}")


def offload(report: Report, *, quick: bool, mib: float = 4096, repeats: int = 3) -> None:
    """Report the seconds in which weights leave the device for main memory, and come back."""
    weights = Weights(int(mib * 2**20), device().type)
    tensors = [one.data for one in weights.layers]
    copies = HostCopies()
    # the first time, memory of the host is made; it is used again
    leaving = seconds_of(lambda: copies.offload(tensors, device()), 1, warm_up=0)
    returning = seconds_of(copies.restore, 1, warm_up=0)
    report(mib=mib, first=True, leave_seconds=leaving, back_seconds=returning)
    for _ in range(repeats):
        leaving = seconds_of(lambda: copies.offload(tensors, device()), 1, warm_up=0)
        returning = seconds_of(copies.restore, 1, warm_up=0)
        report(mib=mib, first=False, leave_seconds=leaving, back_seconds=returning)
    if not all(bool((one == 0).all()) for one in tensors):
        raise RuntimeError("what came back is not what left")
