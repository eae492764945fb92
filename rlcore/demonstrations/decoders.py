"""Call functions in processes that import only what the functions need.

Each process is a fresh interpreter: unlike processes of `multiprocessing`, it neither imports the
user's script again nor inherits threads. It ends when its parent ends, and it is killed if it does
not answer within a timeout.
"""

from __future__ import annotations

import ctypes
import json
import math
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
PR_SET_PDEATHSIG = 1  # linux/prctl.h


class Decoders:
    """A pool of processes that run calls. A process starts with its first call.

    Args:
        count: number of processes.
        seconds: timeout of a call.
    """

    def __init__(self, count: int, seconds: float = math.inf) -> None:
        self._seconds = seconds
        self._threads = ThreadPoolExecutor(count, "decoder")
        self._processes: dict[int, subprocess.Popen[bytes]] = {}  # by id of the thread using it

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Run a picklable call in a process; the future gets its result or its exception."""
        return self._threads.submit(self._ask, call)

    def close(self) -> None:
        """Kill the processes; calls without an answer are cancelled or fail."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._kill_all()
        self._threads.shutdown()
        self._kill_all()  # a thread may have started a process in the meantime

    def _kill_all(self) -> None:
        for process in list(self._processes.values()):
            process.kill()
            process.communicate()

    def _ask(self, call: Callable[[], T]) -> T:
        process = self._process()
        assert process.stdin is not None and process.stdout is not None
        timed_out = threading.Event()

        def stop() -> None:
            timed_out.set()
            process.kill()

        timer = threading.Timer(min(self._seconds, threading.TIMEOUT_MAX), stop)
        timer.daemon = True
        timer.start()
        try:
            pickle.dump(call, process.stdin, protocol=5)
            process.stdin.flush()
            succeeded, answer = pickle.load(process.stdout)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):
            self._processes.pop(threading.get_ident(), None)
            code = process.wait()
            if timed_out.is_set():
                raise WorkerError(
                    f"a process that reads demonstrations (decoder, pid {process.pid}) did not "
                    f"answer within {self._seconds:g} s (sft.decoder_timeout), and was killed",
                    hint="was it stopped, or does its disk hang? Else raise sft.decoder_timeout",
                ) from None
            raise WorkerError(
                f"a process that reads demonstrations ended with exit code {code}",
                hint="-9: memory ran out; lower sft.decoders or sft.memory_gb",
            ) from None
        finally:
            timer.cancel()
        if succeeded:
            return answer
        raise answer

    def _process(self) -> subprocess.Popen[bytes]:
        """Return the process of this thread; start it if there is none."""
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
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # on Ctrl-C, the parent ends this process
    if sys.platform == "linux":  # die with the parent, even while stopped
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # keeps prints of libraries out of the answers
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
