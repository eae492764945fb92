"""Run one worker in its Ray process, with its access to the queues and its heartbeat."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError

from rlcore.utils.mkl import Kernels, Processor, apply_kernels, local_processor
from rlcore.workers.channel import drive
from rlcore.workers.output import redirect_process
from rlcore.workers.policy_worker import PolicyWorkerSettings
from rlcore.workers.roles import ROLES
from rlcore_ray.channel import RayChannel

BEAT_SECONDS = 5.0  # seconds between two heartbeats of a worker
STACK_FRAMES = 5  # innermost stack frames in a heartbeat


class WorkerProcess:
    """Ray actor that holds a worker of any role and its channel."""

    def __init__(
        self,
        role: str,
        name: str,
        settings: Any,
        channel: Any,
        devices: str | None = None,
        log: Path | None = None,
    ) -> None:
        if log is not None:
            redirect_process(log)
        if devices is not None:  # before anything looks for accelerators
            os.environ["CUDA_VISIBLE_DEVICES"] = devices
        threading.Thread(target=_beat, args=(name, channel), daemon=True).start()
        self._channel = RayChannel(channel)
        if isinstance(settings, PolicyWorkerSettings):
            settings = replace(settings, host=ray.util.get_node_ip_address())
        self._worker = ROLES[role](settings)

    def processor(self) -> Processor:
        """Describe this process's processor."""
        return local_processor()

    def adopt(self, kernels: Kernels) -> None:
        """Set the kernels to compute with. The group calls this before `start`."""
        apply_kernels(kernels)

    def call(self, method: str, arguments: Mapping[str, Any], watched: bool = False) -> Any:
        """Call a method of the worker, and return its result.

        Args:
            watched: whether the method reports its progress to the driver.
        """
        progress = {"on_progress": self._channel.report} if watched else {}
        with _without_exit(), self._worker.spans.call(method):
            return getattr(self._worker, method)(**arguments, **progress)

    def talk(self, method: str, arguments: Mapping[str, Any], queues: Mapping[int, Any]) -> Any:
        """Run the worker's part of a conversation, and return its result.

        Args:
            queues: actors with the queues of the env workers that take part, by rank.
        """
        self._channel.of = queues
        with _without_exit(), self._worker.spans.call(method):
            return drive(getattr(self._worker, method)(**arguments), self._channel)


@contextlib.contextmanager
def _without_exit() -> Iterator[None]:
    """Convert SystemExit to a RuntimeError, because Ray takes SystemExit for an intended exit."""
    try:
        yield
    except SystemExit as error:
        raise RuntimeError(f"sys.exit({error.code!r}) was called in a worker") from error


def _beat(name: str, channel: Any) -> None:
    """Send the stack of this process's main thread to the hub every :data:`BEAT_SECONDS`."""
    main = threading.main_thread().ident
    while True:
        stack = traceback.extract_stack(sys._current_frames()[main or 0])
        text = "".join(traceback.format_list(stack[-STACK_FRAMES:]))
        with contextlib.suppress(RayError):  # the group was stopped
            channel.beat.remote(name, text)
        time.sleep(BEAT_SECONDS)
