"""What machines there are: nodes with cores, accelerators and memory. Starts nothing.

Ranks are numbered over all nodes in order. Where any node has an accelerator a rank is an
accelerator, otherwise it is a CPU slot: one core.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

MIB = 2**20
_NVIDIA_SMI_SECONDS = 10.0  # a wedged driver must not hold up a command


@dataclass(frozen=True)
class Node:
    """One machine.

    Attributes:
        cpus: cores this user may use.
        gpus: accelerators this process may see.
        memory: bytes of main memory.
        gpu_memory: bytes of memory of each accelerator, 0 if unknown.
    """

    cpus: int
    gpus: int = 0
    memory: int = 0
    gpu_memory: int = 0


@dataclass(frozen=True)
class Inventory:
    """All machines of a cluster, in rank order."""

    nodes: tuple[Node, ...]

    @classmethod
    def local(cls) -> Inventory:
        """This machine, found without any tensor library."""
        gpus, gpu_memory = _local_gpus()
        return cls((Node(_local_cpus(), gpus, _local_memory(), gpu_memory),))

    @classmethod
    def uniform(cls, nodes: int, node: Node) -> Inventory:
        """`nodes` equal machines, to plan for a cluster from elsewhere."""
        return cls((node,) * nodes)

    @property
    def kind(self) -> Literal["GPU", "CPU"]:
        """What a rank is."""
        return "GPU" if any(node.gpus for node in self.nodes) else "CPU"

    @property
    def total(self) -> int:
        """Number of ranks."""
        return sum(self.slots(index) for index in range(len(self.nodes)))

    def slots(self, node: int) -> int:
        """Number of ranks on that node."""
        return self.nodes[node].gpus if self.kind == "GPU" else self.nodes[node].cpus

    def ranks(self, node: int) -> range:
        """Global ranks of that node."""
        first = sum(self.slots(index) for index in range(node))
        return range(first, first + self.slots(node))

    def locate(self, rank: int) -> tuple[int, int]:
        """(node, number within the node) of a global rank."""
        for node in range(len(self.nodes)):
            ranks = self.ranks(node)
            if rank in ranks:
                return node, rank - ranks.start
        raise IndexError(f"rank {rank} of {self.total}")


def _local_cpus() -> int:
    """Cores of this process, within its affinity and its container's quota."""
    # os.sched_getaffinity exists on Linux only; psutil counts cores elsewhere
    allowed = len(psutil.Process().cpu_affinity()) if psutil.LINUX else psutil.cpu_count()
    return max(1, min([allowed or 1, *_cgroup("cpu.max")]))


def _local_memory() -> int:
    """Bytes of main memory, within the container's limit."""
    return min([psutil.virtual_memory().total, *_cgroup("memory.max")])


def _cgroup(name: str) -> Iterator[int]:
    """The limit of a version 2 control group, if one is set.

    `cpu.max` holds "quota period" in microseconds, `memory.max` bytes; "max" means no limit.
    """
    try:
        words = Path("/sys/fs/cgroup", name).read_text().split()
    except OSError:
        return
    if words and words[0] != "max":
        yield int(words[0]) // int(words[1]) if len(words) > 1 else int(words[0])


def _local_gpus() -> tuple[int, int]:
    """(number of visible NVIDIA devices, bytes of memory of the smallest)."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    memory = _nvidia_smi()
    if visible is not None:
        devices = [device for device in visible.split(",") if device.strip() not in ("", "-1")]
        memory = memory[: len(devices)]
    return len(memory), min(memory, default=0)


def _nvidia_smi() -> list[int]:
    """Bytes of memory of every NVIDIA device; empty without a driver."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    command = [program, "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, timeout=_NVIDIA_SMI_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return [int(line) * MIB for line in answer.stdout.split("\n") if line.strip().isdigit()]
