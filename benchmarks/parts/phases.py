"""Where the wall time and the memory of one process go, phase by phase.

Phases nest: what an inner phase takes is not counted in the one around it, so that all of them add
up to the whole. Work on an accelerator is waited for at both ends of a phase, so that it is counted
where it was asked for.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch

GIB = 2**30
RSS_UNIT = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss, in bytes


@dataclass
class Phase:
    """All times one phase was entered.

    Attributes:
        seconds: in it, less those of phases inside.
        calls: how often it was entered.
        rows: rows of batches it worked on, over all calls.
    """

    seconds: float = 0.0
    calls: int = 0
    rows: int = 0


@dataclass
class Memory:
    """Peaks in GiB up to the end of a stage of the benchmark.

    Attributes:
        host: main memory of this process since it began.
        torch: of the accelerator, held by tensors, in this stage.
        device: of the accelerator, in use by all (simulation and renderer too), as it was seen at
            the ends of phases; what comes and goes within a phase is missed.
    """

    host: float
    torch: float
    device: float


@dataclass
class Clock:
    """Phases by name, and the memory of stages."""

    phases: dict[str, Phase] = field(default_factory=dict)
    stages: dict[str, Memory] = field(default_factory=dict)
    _inside: list[float] = field(default_factory=list)
    _device: float = 0.0

    @contextmanager
    def phase(self, name: str, rows: int = 0) -> Iterator[None]:
        """Count what happens within."""
        found = self.phases.setdefault(name, Phase())
        synchronize()
        begin = time.perf_counter()
        self._inside.append(0.0)
        try:
            yield
        finally:
            synchronize()
            took = time.perf_counter() - begin
            found.seconds += took - self._inside.pop()
            found.calls += 1
            found.rows += rows
            if self._inside:
                self._inside[-1] += took
            self._device = max(self._device, _device_in_use())

    def watch(
        self,
        owner: Any,
        name: str,
        phase: str,
        rows: Callable[..., int] = lambda *_, **__: 0,
    ) -> Any:
        """While it lasts, calls of `owner.name` are a phase.

        Args:
            owner: a module, a class or an object.
            rows: from the arguments of a call to the rows it works on.
        """
        call = getattr(owner, name)

        def timed(*arguments: Any, **named: Any) -> Any:
            with self.phase(phase, rows(*arguments, **named)):
                return call(*arguments, **named)

        return mock.patch.object(owner, name, timed)

    @contextmanager
    def watching(self, *watches: Any) -> Iterator[None]:
        """Several of these at once."""
        with ExitStack() as stack:
            for watch in watches:
                stack.enter_context(watch)
            yield

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Note the peaks of memory within."""
        synchronize()
        self._device = _device_in_use()
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        yield
        synchronize()
        held = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0
        self.stages[name] = Memory(
            host=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * RSS_UNIT / GIB,
            torch=held / GIB,
            device=max(self._device, _device_in_use()),
        )

    @property
    def seconds(self) -> float:
        """Of all phases."""
        return sum(phase.seconds for phase in self.phases.values())


def synchronize() -> None:
    """Wait until the accelerator has done what it was asked for."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _device_in_use() -> float:
    if not torch.cuda.is_available():
        return 0.0
    free, total = torch.cuda.mem_get_info()
    return (total - free) / GIB
