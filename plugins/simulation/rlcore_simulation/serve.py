"""Run a simulator process: `rlcore_simulation.serve PIPE MEMORY`.

consumes   commands over the pipe (the first message says which rows to host)
produces   answers over the pipe, observations in the shared memory
waits for  the next command
ends       when the pipe closes or the parent is gone, whichever comes first

Child processes of a simulator have no access to the pipe: it is closed in processes that are forked
from this one, and in commands.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
import traceback
from multiprocessing.connection import Connection

from rlcore.utils.signals import ENDING_SIGNALS
from rlcore_simulation.block import ObservationBlock
from rlcore_simulation.host import RowHost
from rlcore_simulation.messages import Failure, Hosting
from rlcore_simulation.translate import COMMANDS, decode, encode
from rlcore_simulation.wire import pack, receive

# seconds between checks whether the parent is alive
ORPHAN_CHECK_INTERVAL = 1.0

# internal exit code: the parent has closed the pipe, or has ended
ENDED = -1


def main() -> None:
    """Serve until the pipe closes, then exit the process.

    The process runs no exit handlers, because those of OpenGL libraries may hang or crash, and does
    not wait for the simulator's threads.
    """
    for number in ENDING_SIGNALS:
        if number != signal.SIGTERM:  # the parent handles Ctrl-C and a closed terminal
            signal.signal(number, signal.SIG_IGN)
    pipe = Connection(int(sys.argv[1]))
    memory = int(sys.argv[2])
    for descriptor in (pipe.fileno(), memory):
        os.set_inheritable(descriptor, False)
    # If a forked child kept the pipe open, the parent would not see this process die. Also, only
    # this process may answer.
    os.register_at_fork(after_in_child=pipe.close)
    threading.Thread(target=_leave_with, args=(os.getppid(),), daemon=True).start()
    code = 1
    try:
        _serve(pipe, memory)
        code = 0
    except (EOFError, BrokenPipeError, ConnectionResetError):
        code = ENDED
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # the simulator may have closed it
                stream.flush()
        if code == ENDED:  # the parent may have died, and can't end the simulator's child processes
            os.killpg(0, signal.SIGKILL)
        os._exit(code)


def _serve(pipe: Connection, descriptor: int) -> None:
    message = receive(pipe)
    try:
        hosting: Hosting = decode(message, COMMANDS)
        host = RowHost(hosting, ObservationBlock(hosting.num_envs, hosting.spec, descriptor))
    except BaseException as error:
        pipe.send_bytes(pack(encode(Failure.of(error))))
        return
    while True:
        message = receive(pipe)
        try:
            answer = pack(encode(host.carry_out(decode(message, COMMANDS))))
        except BaseException as error:  # the simulator may raise any class, SystemExit included
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


if __name__ == "__main__":
    main()
