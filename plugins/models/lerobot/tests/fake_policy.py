"""A process in place of LeRobot's: it acts with the noise of the keys, or fails as it is told to.

`actor.model.lerobot.config={at: load, what: die}` says when and how.
"""

from __future__ import annotations

import os
import sys
import time

from rlcore_model_lerobot.messages import ANSWERS, COMMANDS, Act, Acted, Done, Load
from rlcore_simulation.serving import Host, serve_pipe
from rlcore_simulation.translate import decode, encode
from rlcore_simulation.wire import Message

from rlcore.contracts.errors import CheckpointError

SHAPE = (4, 4)  # C, A


def host_fake(message: Message) -> Host:
    load: Load = decode(message, COMMANDS)
    told = load.config.lerobot.config or {}

    def fail(at: str) -> None:
        if told.get("at") != at:
            return
        if told["what"] == "refuse":
            raise CheckpointError("the folder is damaged", hint="copy it again")
        if told["what"] == "raise":
            raise ValueError("no such layer")
        if told["what"] == "hang":
            time.sleep(60)
        sys.stderr.write("line one\nout of memory\n")
        sys.stderr.flush()
        os._exit(3)

    def answer(message: Message) -> Message:
        command = decode(message, COMMANDS)
        if not isinstance(command, Act):
            return encode(Done(), ANSWERS)
        fail("act")
        drawn = command.keys.normal("draw 0", SHAPE) + command.inputs["state"][:, None]
        return encode(Acted(drawn), ANSWERS)

    fail("load")
    return answer


if __name__ == "__main__":
    serve_pipe(host_fake)
