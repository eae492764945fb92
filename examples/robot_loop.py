"""Drive a robot at 10 Hz with a policy that `rlcore serve RUN` serves:

    python examples/robot_loop.py ws://127.0.0.1:8000 SECONDS

While a chunk of actions is carried out, the next one is asked for, from the newest observation. Of
an answer, the steps whose time is already over are left out; until it comes, the older chunk goes
on. The toy env stands in for the robot: replace `Robot`.
"""

import statistics
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
from rlcore_serve.client import PolicyClient

import rlcore

HERTZ = 10


class Robot:
    """`observe` names things as serve.platform does; `move` takes an action in the env's units."""

    def __init__(self) -> None:
        self._envs = rlcore.make_env("toy", num_envs=1)
        self._seen, _ = self._envs.reset(seed=0)

    def observe(self) -> dict[str, Any]:
        frames = {f"observation/cameras/{n}": f[0] for n, f in self._seen["cameras"].items()}
        state, sentence = self._seen["states"][0], self._seen["task_descriptions"][0]
        return {**frames, "observation/state": state, "prompt": sentence}

    def move(self, action: np.ndarray) -> None:
        self._seen = self._envs.step(action[None])[0]


def drive(url: str, seconds: float) -> dict[str, list[float]]:
    """Latencies of each part, in milliseconds; `idle`: ticks for which there was no action."""
    client, robot = PolicyClient(url, reconnect_s=10, reply_s=5, max_bytes=2**24), Robot()
    spent: dict[str, list[float]] = {"idle": [], "late": []}
    plan: dict[int, np.ndarray] = {}
    asked: tuple[int, float, Future[dict[Any, Any]]] | None = None
    client.open()
    with ThreadPoolExecutor(1) as pool:
        begin = time.perf_counter()
        for tick in range(int(seconds * HERTZ)):
            if asked and asked[2].done():
                first, sent, answer = asked[0], asked[1], asked[2].result()
                chunk = enumerate(answer["actions"], first)
                plan |= {number: action for number, action in chunk if number >= tick}
                spent.setdefault("answer", []).append(1e3 * (time.perf_counter() - sent))
                for part, ms in answer["server_timing"].items():
                    spent.setdefault(f"server {part}", []).append(ms)
                asked = None
            if asked is None:
                at = time.perf_counter()
                asked = tick, at, pool.submit(client.request, robot.observe())
            if tick in plan:
                robot.move(plan.pop(tick))
            else:
                spent["idle"].append(tick)
            left = begin + (tick + 1) / HERTZ - time.perf_counter()
            spent["late"] += [-1e3 * left] if left < 0 else []
            time.sleep(max(left, 0))
    client.close()
    return spent


if __name__ == "__main__":
    for part, values in drive(sys.argv[1], float(sys.argv[2])).items():
        worst = f"median {statistics.median(values):.1f}, worst {max(values):.1f}" if values else ""
        print(f"{part:22} {len(values):5} times  {worst}")
