"""The machine a figure was taken on, and how busy it was."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass

import psutil

from rlcore.runs.manifest import versions

GIB = 2**30


@dataclass(frozen=True)
class Machine:
    """Facts without which a figure says nothing.

    Attributes:
        cpu: name of the processor.
        cores: cores the run could use.
        memory_gib: main memory.
        load: load average over the last minute, before the benchmark began; a machine that
            others use shows it here.
        python, versions: software.
    """

    cpu: str
    cores: int
    memory_gib: float
    load: float
    python: str
    versions: dict[str, str]

    @classmethod
    def this(cls, cores: int) -> Machine:
        return cls(
            cpu=_cpu_name(),
            cores=cores,
            memory_gib=round(psutil.virtual_memory().total / GIB, 1),
            load=round(os.getloadavg()[0], 2),
            python=platform.python_version(),
            versions=versions(),
        )

    def lines(self) -> list[str]:
        """The same for people."""
        named = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        busy = "" if self.load < 0.5 else "  (not idle: figures below are of a shared machine)"
        return [
            f"{self.cpu}, {self.cores} cores, {self.memory_gib} GiB",
            f"load before the start {self.load}{busy}",
            f"python {self.python}, {named}",
        ]


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            names = [line.partition(":")[2].strip() for line in lines if "model name" in line]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()
