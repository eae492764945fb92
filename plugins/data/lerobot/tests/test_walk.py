"""From a folder that LeRobot's writer recorded to a served policy, as docs/your-data.md tells."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from theirs import environment, lerobot_python, run

PAGE = Path(__file__).parents[4] / "docs/your-data.md"
RLCORE = Path(sys.executable).parent / "rlcore"
SHORT = {
    "sft": ["sft.max_steps=60", "sft.batch_size=16", "cluster.backend=local"],
    "serve": ["serve.port=0"],
}
"""What is added to lines of the page, so that they take seconds."""
RECORD = """
from lerobot.datasets.lerobot_dataset import LeRobotDataset

names = ["shoulder_pan.pos", "shoulder_lift.pos", "elbow.pos", "wrist_flex.pos", "wrist_roll.pos"]
names.append("gripper.pos")
camera = {"dtype": "video", "shape": (96, 128, 3), "names": ["height", "width", "channels"]}
numbers = {"dtype": "float32", "shape": (6,), "names": names}
features = {"observation.images.front": camera, "observation.images.wrist": camera,
            "observation.state": numbers, "action": numbers}
data = LeRobotDataset.create("local/arm", fps=30, features=features, root=sys.argv[1],
                             robot_type="so101", use_videos=True)
y, x = np.mgrid[:96, :128]
for episode in range(10):
    times = np.arange(41) / 20
    joints = 0.6 * np.sin(times[:, None] + np.arange(5) + 0.3 * episode)
    pose = np.concatenate([joints, (times < 1)[:, None]], 1).astype(np.float32)
    for step in range(40):
        reach = int(50 + 40 * pose[step, 0])
        front = np.stack([90 + x, 120 + y, 0 * x + 200], -1)
        front[40:60, reach:reach + 12] = (250, 40, 40)
        wrist = np.stack([20 + 0 * x, 30 + y // 4, 10 + reach + 0 * x], -1)
        data.add_frame({
            "observation.images.front": front.astype(np.uint8),
            "observation.images.wrist": wrist.astype(np.uint8),
            "observation.state": pose[step],
            "action": pose[step + 1],
            "task": ["pick the cube", "open the drawer"][episode % 2],
        })
    data.save_episode()
data.finalize()
"""
ASK = """
import sys
import numpy as np
from openpi_client.websocket_client_policy import WebsocketClientPolicy

policy = WebsocketClientPolicy("127.0.0.1", int(sys.argv[1]))
frame = np.zeros((96, 128, 3), np.uint8)
actions = policy.infer({
    "observation/cameras/front": frame, "observation/cameras/wrist": frame,
    "observation/state": np.zeros(6, np.float32), "prompt": "pick the cube",
})["actions"]
assert actions.shape[1] == 6 and np.isfinite(actions).all()
print(policy.get_server_metadata()["cameras"], actions.shape)
"""


def lines_of_the_walk() -> list[list[str]]:
    """The words after `rlcore` of the first lines of the page."""
    text = PAGE.read_text().partition("\n1. **")[0]
    return [shlex.split(line) for line in re.findall(r"^    rlcore (.+)$", text, re.MULTILINE)]


def typed(folder: Path, words: Sequence[str]) -> str:
    """What a command prints; the seconds that it took are told."""
    started = time.monotonic()
    done = subprocess.run([RLCORE, *words], cwd=folder, capture_output=True, text=True)
    print(f"{time.monotonic() - started:.1f} s: rlcore {shlex.join(words)}", flush=True)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.long
def test_from_a_recorded_folder_to_an_answer_for_a_robot(tmp_path: Path) -> None:
    """Two marks are filled in; there is no warning; a client gets actions of six entries."""
    lerobot = lerobot_python(tmp_path / "lerobot", "0.4.4")
    client = environment(tmp_path / "client", "openpi-client==0.1.2", "typing_extensions")
    run(lerobot, RECORD, tmp_path / "arm")
    describe, view, sft, compare, serve = lines_of_the_walk()
    typed(tmp_path, describe)
    file = tmp_path / "arm.yaml"
    head, _, text = file.read_text().partition("data:")
    assert text.count('"???"') == 2 and "joint_position" in text
    text = text.replace('"???"', "target in rad", 1).replace('"???"', "1 is open")
    file.write_text(f"{head}data:{text}")
    assert "warning" not in typed(tmp_path, view)
    assert "observation.images" not in (tmp_path / "view.html").read_text()
    learned = typed(tmp_path, [*sft, *SHORT["sft"]])
    assert "validation loss" in learned and "rlcore open-loop" in learned
    assert "held-out episodes" in typed(tmp_path, compare)
    run_folder = tmp_path / compare[1]
    errors = json.loads((run_folder / "open_loop.json").read_text())
    assert errors["episodes"] == 2 and len(errors["entries"]) == 6
    assert (run_folder / "open_loop.html").read_text().count("<svg") == 2 * 6
    server = subprocess.Popen(
        [RLCORE, *serve, *SHORT["serve"]], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        line = next(line for line in server.stdout if line.startswith("serving"))
        port = line.strip().rpartition(":")[2]
        asked = subprocess.run([client, "-c", ASK, port], capture_output=True, text=True)
        assert asked.returncode == 0, asked.stderr
        assert asked.stdout.startswith("['front', 'wrist']")
    finally:
        os.kill(server.pid, signal.SIGTERM)
        server.wait()
