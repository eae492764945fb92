"""Run the process of a policy: `rlcore_model_lerobot.serve PIPE`, with LeRobot's interpreter.

It needs torch, LeRobot and what comes with them; rlcore's modules are linked for it. See
:mod:`rlcore_simulation.serving`.
"""

from __future__ import annotations

from pathlib import Path

import torch
from rlcore_simulation.serving import Host, serve_pipe
from rlcore_simulation.translate import decode, encode
from rlcore_simulation.wire import Message

from rlcore_model_lerobot.messages import ANSWERS, COMMANDS, Act, Acted, Done, Load, Save


def host_policy(message: Message) -> Host:
    """Return what answers commands with the policy that a first message describes."""
    load: Load = decode(message, COMMANDS)
    # imported here, so that a LeRobot that can't be imported is an answer
    from rlcore_model_lerobot.policy import make

    torch.manual_seed(load.seed)
    policy = make(load.config, env_spec=load.env)

    def answer(message: Message) -> Message:
        match decode(message, COMMANDS):
            case Act(inputs, keys, device):
                policy.to(device)
                return encode(Acted(policy.act(inputs, keys).actions), ANSWERS)
            case Save(folder):
                policy.save_pretrained(Path(folder))
        return encode(Done(), ANSWERS)

    return answer


if __name__ == "__main__":
    serve_pipe(host_policy)
