"""Call functions in processes that import only what the functions need.

Each is a fresh interpreter, which neither imports the user's script again nor inherits threads, as
processes of `multiprocessing` do. It ends with whoever started it.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from rlcore.contracts.errors import WorkerError

T = TypeVar("T")


class Decoders:
    """Processes that answer one call after another; they start at the first one.

    Args:
        count: of processes.
    """

    def __init__(self, count: int) -> None:
        self._threads = ThreadPoolExecutor(count, "decoder")
        self._processes: dict[int, subprocess.Popen[bytes]] = {}  # by the thread that asks it

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """What a call gives or raises. It must be one that can be pickled."""
        return self._threads.submit(self._ask, call)

    def close(self) -> None:
        """End the processes; calls that have not begun are given up."""
        self._threads.shutdown(cancel_futures=True)
        for process in self._processes.values():
            process.communicate()

    def _ask(self, call: Callable[[], T]) -> T:
        process = self._process()
        assert process.stdin is not None and process.stdout is not None
        try:
            pickle.dump(call, process.stdin, protocol=5)
            process.stdin.flush()
            done, answer = pickle.load(process.stdout)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):
            del self._processes[threading.get_ident()]
            raise WorkerError(
                f"a process that reads demonstrations ended with exit code {process.wait()}",
                hint="-9: memory ran out; lower sft.decoders or sft.memory_gb",
            ) from None
        if done:
            return answer
        raise answer

    def _process(self) -> subprocess.Popen[bytes]:
        """This thread's own."""
        thread = threading.get_ident()
        if thread not in self._processes:
            path = json.dumps([entry or os.getcwd() for entry in sys.path])
            command = f"import sys; sys.path[:] = {path}; from {__name__} import main; main()"
            self._processes[thread] = subprocess.Popen(
                [sys.executable, "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        return self._processes[thread]


def main() -> None:
    """Answer calls from standard input until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C: whoever started it ends it
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    while True:
        try:
            call = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        answer: tuple[bool, Any]
        try:
            answer = True, call()
        except Exception as error:
            answer = False, error
        pickle.dump(answer, answers, protocol=5)
        answers.flush()
