"""Describe the machines of a cluster: nodes with cores, accelerators and memory. Starts nothing.

Ranks are numbered over all nodes in order. If any node has an accelerator, ranks are accelerators;
if none has, they are CPU cores. In a cluster with accelerators, cores have ranks after those of all
accelerators, which only node groups with `ignore_hardware` use.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Literal

import psutil

from rlcore.config.schema import ClusterConfig

MIB = 2**20
_NVIDIA_SMI_SECONDS = 10.0  # a hung driver must not block a command


@dataclass(frozen=True)
class Node:
    """One machine.

    Attributes:
        cpus: number of cores that this user may use.
        gpus: number of accelerators visible to this process.
        memory: main memory in bytes, 0 if unknown.
        gpu_memory: memory of the smallest accelerator in bytes, 0 if unknown.
        name: host name or address; empty for the local machine.
        labels: labels with which the node joined (`ray start --labels`).
        id: the backend's identifier of a node that has joined; empty for others.
        interface: network interface that has the node's address in the cluster; empty if unknown.
        devices: accelerators as `CUDA_VISIBLE_DEVICES` names them; empty if unknown.
    """

    cpus: int
    gpus: int = 0
    memory: int = 0
    gpu_memory: int = 0
    name: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    id: str = ""
    devices: tuple[str, ...] = ()
    interface: str = ""


@dataclass(frozen=True)
class Inventory:
    """All machines of a cluster, in rank order.

    Attributes:
        nodes: the machines.
        head: `host:port` of the head node of the cluster that this run joined; empty if it joined
            none.
        assumptions: assumptions about machines that are only described, one sentence each.
    """

    nodes: tuple[Node, ...]
    head: str = ""
    assumptions: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def local(cls) -> Inventory:
        """Describe this machine. Imports no tensor library."""
        devices, gpu_memory = local_gpus()
        node = Node(local_cpus(), len(devices), local_memory(), gpu_memory, devices=tuple(devices))
        return cls((node,))

    @classmethod
    def uniform(cls, nodes: int, node: Node) -> Inventory:
        """Describe `nodes` equal machines, to plan for a cluster without access to it."""
        return cls((node,) * nodes)

    @cached_property
    def kind(self) -> Literal["GPU", "CPU"]:
        """Kind of resource that a rank is."""
        return "GPU" if any(node.gpus for node in self.nodes) else "CPU"

    @property
    def total(self) -> int:
        """Number of ranks."""
        return self._ranks[-1].stop if self._ranks else 0

    def ranks(self, node: int) -> range:
        """Return the global ranks of a node."""
        return self._ranks[node]

    def cores(self, node: int) -> range:
        """Return the global ranks of a node's CPU cores.

        In a cluster with accelerators they follow the ranks of all accelerators.
        """
        return self._cores[node]

    def is_core(self, rank: int) -> bool:
        """Return whether a global rank is a CPU core."""
        return self.kind == "CPU" or rank >= self.total

    def locate(self, rank: int) -> tuple[int, int]:
        """Return (node, number within the node) of a global rank."""
        return self._places[rank]

    # Cached, because they are read for every process of a plan, of which there may be hundreds.

    @cached_property
    def _ranks(self) -> tuple[range, ...]:
        return _consecutive_ranges(
            0, [n.gpus if self.kind == "GPU" else n.cpus for n in self.nodes]
        )

    @cached_property
    def _cores(self) -> tuple[range, ...]:
        if self.kind == "CPU":
            return self._ranks
        return _consecutive_ranges(self.total, [node.cpus for node in self.nodes])

    @cached_property
    def _places(self) -> Mapping[int, tuple[int, int]]:
        return {
            rank: (node, rank - ranks.start)
            for numbered in (self._ranks, self._cores)
            for node, ranks in enumerate(numbered)
            for rank in ranks
        }


def _consecutive_ranges(first: int, lengths: Sequence[int]) -> tuple[range, ...]:
    """Return adjoining ranges of the given lengths; the first begins at `first`."""
    ends = accumulate(lengths, initial=first)
    return tuple(range(end, end + length) for end, length in zip(ends, lengths, strict=False))


def local_cpus() -> int:
    """Count the cores of this process, within its affinity and its container's quota."""
    # os.sched_getaffinity exists on Linux only; psutil counts cores elsewhere
    allowed = len(psutil.Process().cpu_affinity()) if psutil.LINUX else psutil.cpu_count()
    return max(1, min([allowed or 1, *_cgroup("cpu.max")]))


def local_memory() -> int:
    """Return the bytes of main memory, within the container's limit."""
    return min([psutil.virtual_memory().total, *_cgroup("memory.max")])


def free_memory() -> int:
    """Return the bytes of main memory that are free, within the container's limit."""
    container = zip(_cgroup("memory.max"), _cgroup("memory.current"), strict=False)
    return min([psutil.virtual_memory().available, *(limit - used for limit, used in container)])


def _cgroup(name: str) -> Iterator[int]:
    """Yield the limit of a version 2 control group, if one is set.

    `cpu.max` holds "quota period" in microseconds, `memory.*` bytes; "max" means no limit.
    """
    try:
        words = Path("/sys/fs/cgroup", name).read_text().split()
    except OSError:
        return
    if words and words[0] != "max":
        yield int(words[0]) // int(words[1]) if len(words) > 1 else int(words[0])


def local_gpus() -> tuple[list[str], int]:
    """Return (visible NVIDIA devices by name, bytes of memory of the smallest)."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    memory = _nvidia_smi()
    devices = [str(number) for number in range(len(memory))]
    if visible is not None:
        listed = [device.strip() for device in visible.split(",")]
        devices = [device for device in listed if device not in ("", "-1")][: len(memory)]
    return devices, min(memory[: len(devices)], default=0)


def _nvidia_smi() -> list[int]:
    """Return the memory of every NVIDIA device in bytes; empty without a driver."""
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


def joins(cluster: ClusterConfig) -> bool:
    """Return whether a run joins a running cluster."""
    return cluster.backend != "local" and cluster.address not in (None, "local")
