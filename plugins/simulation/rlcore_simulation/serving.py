"""Serve a pipe in a process that :class:`rlcore_simulation.child.ChildProcess` started.

consumes   messages over the pipe
produces   an answer to each of them but the first
waits for  the next message
ends       when the pipe closes or the parent is gone, whichever comes first

Child processes have no access to the pipe: it is closed in processes that are forked from this one,
and in commands.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection

from rlcore.utils.signals import ENDING_SIGNALS
from rlcore_simulation.messages import Failure
from rlcore_simulation.translate import encode
from rlcore_simulation.wire import Message, pack, receive

# seconds between checks whether the parent is alive
ORPHAN_CHECK_INTERVAL = 1.0

# internal exit code: the parent has closed the pipe, or has ended
ENDED = -1

Host = Callable[[Message], Message]
"""What answers a message."""


def serve_pipe(begin: Callable[..., Host]) -> None:
    """Answer messages until the pipe closes, then exit the process.

    The arguments of the process are the descriptors of the pipe and of further files. The first
    message has no answer, unless `begin` raises. An exception is answered with a
    :class:`rlcore_simulation.messages.Failure`.

    The process runs no exit handlers, because those of OpenGL libraries may hang or crash, and does
    not wait for threads of libraries.

    Args:
        begin: called with the first message and the further descriptors; returns what answers the
            messages that follow.
    """
    for number in ENDING_SIGNALS:
        if number != signal.SIGTERM:  # the parent handles Ctrl-C and a closed terminal
            signal.signal(number, signal.SIG_IGN)
    descriptors = [int(argument) for argument in sys.argv[1:]]
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    pipe = Connection(descriptors[0])
    # If a forked child kept the pipe open, the parent would not see this process die. Also, only
    # this process may answer.
    os.register_at_fork(after_in_child=pipe.close)
    threading.Thread(target=_leave_with, args=(os.getppid(),), daemon=True).start()
    code = 1
    try:
        _serve(pipe, begin, descriptors[1:])
        code = 0
    except (EOFError, BrokenPipeError, ConnectionResetError):
        code = ENDED
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # a library may have closed it
                stream.flush()
        if code == ENDED:  # the parent may have died, and can't end this process's children
            os.killpg(0, signal.SIGKILL)
        os._exit(code)


def _serve(pipe: Connection, begin: Callable[..., Host], descriptors: list[int]) -> None:
    message = receive(pipe)
    try:
        host = begin(message, *descriptors)
    except BaseException as error:
        pipe.send_bytes(pack(encode(Failure.of(error))))
        return
    while True:
        message = receive(pipe)
        try:
            answer = pack(host(message))
        except BaseException as error:  # a library may raise any class, SystemExit included
            answer = pack(encode(Failure.of(error)))
        pipe.send_bytes(answer)


def _leave_with(parent: int) -> None:
    """Kill this process and its child processes once `parent` has ended, even if it hangs.

    They have a process group to themselves, because the parent starts this process in a new
    session.
    """
    while os.getppid() == parent:
        time.sleep(ORPHAN_CHECK_INTERVAL)
    os.killpg(0, signal.SIGKILL)
