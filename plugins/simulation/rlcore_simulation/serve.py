"""Run a simulator process: `rlcore_simulation.serve PIPE MEMORY`.

The first message says which rows to host; observations are written into the shared memory. See
:mod:`.serving`.
"""

from __future__ import annotations

from rlcore_simulation.block import ObservationBlock
from rlcore_simulation.host import RowHost
from rlcore_simulation.messages import Hosting
from rlcore_simulation.serving import Host, serve_pipe
from rlcore_simulation.translate import COMMANDS, decode, encode
from rlcore_simulation.wire import Message


def host_rows(message: Message, descriptor: int) -> Host:
    """Return what carries out commands on the rows that a first message describes."""
    hosting: Hosting = decode(message, COMMANDS)
    host = RowHost(hosting, ObservationBlock(hosting.num_envs, hosting.spec, descriptor))
    return lambda command: encode(host.carry_out(decode(command, COMMANDS)))


if __name__ == "__main__":
    serve_pipe(host_rows)
