"""RoboTwin's way of playing several envs, over the stand-in scene: a thread for each in one
process, one lock for all resets. Runs in the simulator's interpreter, told what to play in JSON.

RoboTwin also updates the renderer after each step of physics; this leaves that out.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from rlcore_env_robotwin.settings import RoboTwinConfig
from rlcore_stand_ins.robotwin.pool import make_pool
from rlcore_stand_ins.robotwin.simulator import StandIn

from rlcore.contracts.specs import Episode

LOCK = threading.Lock()


class SubEnv:
    """One env of the thread pool."""

    def __init__(self, task: str, row: int) -> None:
        pool = make_pool(RoboTwinConfig(stand_ins=True, tasks=[task]))
        self._row = row
        self._simulator: StandIn = pool.take(0)
        self.frame = np.zeros((224, 224, 3), dtype=np.uint8)

    def reset(self) -> None:
        with LOCK:
            self._simulator.start(Episode(0, self._row))
            self._simulator.draw({"head_camera": self.frame})

    def step(self, actions: np.ndarray) -> int:
        steps = sum(1 for _ in self._simulator.play(actions))
        self._simulator.draw({"head_camera": self.frame})
        return steps


def main() -> None:
    task, repeats, chunks = json.loads(sys.argv[1]), int(sys.argv[2]), np.load(sys.argv[3])
    count = chunks.shape[1]
    envs = [SubEnv(task, row) for row in range(count)]
    with ThreadPoolExecutor(count) as threads:
        list(threads.map(SubEnv.reset, envs))  # warm
        rounds = []
        for _ in range(repeats):
            begin, cpu = time.perf_counter(), time.process_time()
            list(threads.map(SubEnv.reset, envs))
            reset = time.perf_counter() - begin
            steps = sum(sum(threads.map(SubEnv.step, envs, chunk)) for chunk in chunks)
            spent = time.perf_counter() - begin, time.process_time() - cpu
            rounds.append((steps, *spent, reset))
    print(json.dumps(rounds))


if __name__ == "__main__":
    main()
