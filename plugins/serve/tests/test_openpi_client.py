"""openpi's own client, in an environment of its own (it pins numpy<2), and our server."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from served import message_of, serving

import rlcore
from rlcore.api import LoadedPolicy
from rlcore.contracts.protocols import Observation
from rlcore.contracts.specs import ActionChannel, CameraSpec, StateChannel

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


PLATFORMS = """
import sys
import numpy as np
from openpi_client import image_tools
from openpi_client.websocket_client_policy import WebsocketClientPolicy

platform, port = sys.argv[1], int(sys.argv[2])
draw = np.random.default_rng(int(sys.argv[3]))

def picture(height, width):
    frame = draw.integers(0, 256, (height, width, 3), np.uint8)
    return image_tools.convert_to_uint8(image_tools.resize_with_pad(frame, 224, 224))

# as the scripts of openpi's examples put an observation together
if platform == "libero":
    message = {
        "observation/image": np.ascontiguousarray(picture(256, 256)[::-1, ::-1]),
        "observation/wrist_image": np.ascontiguousarray(picture(256, 256)[::-1, ::-1]),
        "observation/state": np.concatenate([draw.normal(size=n) for n in (3, 3, 2)]),
    }
elif platform == "droid":
    message = {
        "observation/exterior_image_1_left": picture(180, 320),
        "observation/wrist_image_left": picture(180, 320),
        "observation/joint_position": draw.normal(size=7),
        "observation/gripper_position": draw.normal(size=1),
    }
else:
    names = ("cam_high", "cam_low", "cam_left_wrist", "cam_right_wrist")
    message = {
        "state": draw.normal(size=14),
        "images": {name: np.transpose(picture(480, 640), (2, 0, 1)) for name in names},
    }
message["prompt"] = "fold the towel"
np.save(sys.argv[4], message, allow_pickle=True)
actions = WebsocketClientPolicy("127.0.0.1", port).infer(message)["actions"]
assert actions.shape == (2, 7) and (actions == 0.5).all()
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
@pytest.mark.parametrize(
    ("platform", "cameras", "states"),
    [
        ("libero", ["observation/image", "observation/wrist_image"], ["observation/state"]),
        (
            "droid",
            ["observation/exterior_image_1_left", "observation/wrist_image_left"],
            ["observation/joint_position", "observation/gripper_position"],
        ),
        ("aloha", ["cam_high", "cam_left_wrist", "cam_right_wrist", "cam_low"], ["state"]),
        ("aloha", ["cam_high", "cam_left_wrist", "cam_right_wrist"], ["state"]),
    ],
)
def test_observations_of_openpis_clients_arrive_whole(
    python: Path,
    policy: LoadedPolicy,
    tmp_path: Path,
    platform: str,
    cameras: list[str],
    states: list[str],
) -> None:
    """Each camera and each number arrives where it belongs."""
    width = {"libero": 8, "droid": 8, "aloha": 14}[platform]
    spec = replace(
        policy.env_spec,
        cameras=tuple(CameraSpec(f"camera{n}", 224, 224) for n in range(len(cameras))),
        states=(StateChannel("all of it", width),),
        actions=(ActionChannel("joint_position", 7),),
    )
    seen: list[Observation] = []

    def act(rows: Observation, keys: object) -> np.ndarray:
        seen.append(rows)
        return np.full((1, 2, 7), 0.5, np.float32)

    known: Any = replace(policy, env_spec=spec)
    with serving(known, act=act, platform=platform) as server:
        sent = tmp_path / "sent.npy"
        words = [python, "-c", PLATFORMS, platform, str(server.port), "5", sent]
        subprocess.run(words, check=True, timeout=60)
    message = np.load(sent, allow_pickle=True).item()
    (row,) = seen
    for number, name in enumerate(cameras):
        frame = message[name] if platform != "aloha" else message["images"][name].transpose(1, 2, 0)
        np.testing.assert_array_equal(row["cameras"][f"camera{number}"][0], frame)
    wanted = np.concatenate([message[name] for name in states]).astype(np.float32)
    np.testing.assert_array_equal(row["states"], wanted[None])
    assert row["task_descriptions"] == ["fold the towel"]


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
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as client,
    ):
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
