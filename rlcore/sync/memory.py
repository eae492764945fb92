"""Memory that one process fills and others read: of a node, or of an accelerator.

Host memory has no name: the system gives it back when the last process that holds it has ended,
however it ended. It is no part of `/dev/shm`, whose size does not matter therefore. Other
processes of the same user reach it through the file descriptors of the one that made it (Linux).
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlcore.errors import WorkerError
from rlcore.sync.arrays import borrow

NAME = "rlcore-weights"  # seen in /proc/PID/maps, and nowhere else


@dataclass(frozen=True)
class HostPlace:
    """Where other processes of the node find host memory: `size` bytes, open as `fd` in `pid`.
    `file` tells it from what another process has there, as process ids are a container's own."""

    pid: int
    fd: int
    size: int
    file: tuple[int, int]

    def open(self) -> Tensor:
        """The memory, uint8 `[size]`, to be read from only.

        Raises:
            OSError: it can't be reached from this process.
        """
        fd = os.open(f"/proc/{self.pid}/fd/{self.fd}", os.O_RDONLY)
        try:
            if _file(fd) != self.file:
                raise OSError("processes here don't see each other's files")
            held = mmap.mmap(fd, self.size, access=mmap.ACCESS_READ)
        finally:
            os.close(fd)
        return borrow(np.frombuffer(held, np.uint8))


@dataclass(frozen=True)
class DevicePlace:
    """Where other processes find memory of an accelerator that both have (CUDA IPC); how to open
    it, as torch says it."""

    make: Callable[..., Any]
    arguments: tuple[Any, ...]

    def open(self) -> Tensor:
        """The memory, uint8 `[size]`."""
        opened: Tensor = self.make(*self.arguments)
        return opened


Place = HostPlace | DevicePlace


class Lent:
    """Memory that others may read.

    Attributes:
        data: uint8 `[size]`.
        place: where others find it.

    Args:
        size: bytes, at least 1.
        device: None for host memory.

    Raises:
        WorkerError: the memory is not to be had.
    """

    def __init__(self, size: int, device: torch.device | None = None) -> None:
        self.place: Place
        self._fd: int | None = None
        if device is not None:
            from torch.multiprocessing.reductions import reduce_tensor

            self.data = torch.empty(size, dtype=torch.uint8, device=device)
            self.place = DevicePlace(*reduce_tensor(self.data))
            return
        try:
            self._fd = os.memfd_create(NAME)
            os.posix_fallocate(self._fd, 0, size)  # now: a page that is missing later is a crash
            held = mmap.mmap(self._fd, size)
        except OSError as error:
            self.close()
            raise WorkerError(
                f"{size / 2**20:.0f} MiB of memory to send weights through are not to be had: "
                f"{error.strerror}",
                hint="rollout.sync=object_store does without",
            ) from error
        self.data = torch.frombuffer(held, dtype=torch.uint8)
        self.place = HostPlace(os.getpid(), self._fd, size, _file(self._fd))

    def close(self) -> None:
        """From now on nobody else can open it; who has, may go on reading."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def can_share() -> bool:
    """Whether this system has memory without a name."""
    return "memfd_create" in vars(os)


def _file(fd: int) -> tuple[int, int]:
    """What an open file is, whoever has it open."""
    found = os.fstat(fd)
    return found.st_dev, found.st_ino
