"""openpi's own client, in an environment of its own (it pins numpy<2), and our server."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from served import message_of, serving

import rlcore
from rlcore.api import LoadedPolicy

STEPS = 9
CLIENT = """
import sys
import numpy as np
from openpi_client.action_chunk_broker import ActionChunkBroker
from openpi_client.websocket_client_policy import WebsocketClientPolicy

port, key = int(sys.argv[1]), sys.argv[2]
policy = WebsocketClientPolicy("127.0.0.1", port, api_key=key)
says = policy.get_server_metadata()
print(says["policy"], says["action_horizon"], flush=True)
broker = ActionChunkBroker(policy, action_horizon=says["action_horizon"])
for line in sys.stdin:
    given = np.load(line.strip())
    message = {name: given[name] for name in given.files if name != "prompt"}
    try:
        action = broker.infer({**message, "prompt": str(given["prompt"])})["actions"]
    except RuntimeError as error:
        print("refused:", str(error).splitlines()[-1], flush=True)
        break
    np.save(line.strip() + ".npy", action)
    print("answered", flush=True)
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter that has openpi's client and nothing of rlcore."""
    folder = tmp_path_factory.mktemp("openpi")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    found = folder / "bin/python"
    # it imports typing_extensions and does not say so
    packages = ["openpi-client==0.1.2", "typing_extensions"]
    subprocess.run([found, "-m", "pip", "install", "-qq", *packages], check=True, timeout=600)
    return found


@pytest.mark.long
def test_their_client_acts_as_the_policy_in_process(
    python: Path, policy: LoadedPolicy, tmp_path: Path
) -> None:
    """The same env, driven by their broker and by the policy itself: each action is equal."""
    tasks = "env.eval.tasks=[reach-left,reach-up]"
    with (
        serving(policy, key="secret", forward_batch=4) as server,
        contextlib.closing(rlcore.make_env("toy", tasks)) as here,
        contextlib.closing(rlcore.make_env("toy", tasks)) as there,
        subprocess.Popen(
            [python, "-c", CLIENT, str(server.port), "secret"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        ) as client,
    ):  # fmt: skip
        assert client.stdin is not None and client.stdout is not None
        assert client.stdout.readline() == "toy 2\n"

        def asked(number: int, message: dict[str, object]) -> str:
            file = tmp_path / f"{number}.npz"
            np.savez(file, **message)
            client.stdin.write(f"{file}\n")
            client.stdin.flush()
            return client.stdout.readline().strip()

        seen, other = here.reset(seed=1)[0], there.reset(seed=1)[0]
        for step in range(STEPS):
            if step % 2 == 0:
                chunk = policy.select_actions(seen, forward_batch=4)[0]
            assert asked(step, message_of(other)) == "answered"
            action = np.load(tmp_path / f"{step}.npz.npy")
            assert action.dtype == np.float32 and (action == chunk[step % 2]).all()
            seen, *mine = here.step(chunk[None, step % 2])
            other, *theirs = there.step(action[None])
            assert all((a == b).all() for a, b in zip(mine[:3], theirs[:3], strict=True))
        # the second half of a chunk: the broker does not ask; then it does, with a wrong state
        wrong = message_of(other) | {"observation/state": np.zeros(5)}
        assert asked(STEPS, wrong) == "answered"
        assert "observation/state must have 2 entries, got 5" in asked(STEPS + 1, wrong)
