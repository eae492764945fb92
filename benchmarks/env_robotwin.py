"""RoboTwin's stand-in scene: our vector env against RoboTwin's way, in one run; and its expert.

    python benchmarks/env_robotwin.py --python PATH [--task NAME] [--envs 4] [--chunks 8] [--quick]
    python benchmarks/env_robotwin.py --python PATH --expert [--starts 20]

PATH is an interpreter that `rlcore venv create robotwin` made. See docs/benchmarks.md for what each
figure means.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import psutil
from rlcore_env_robotwin.env import make_env
from rlcore_env_robotwin.settings import RoboTwinConfig
from rlcore_env_robotwin.tasks import BOXES
from rlcore_simulation.env import SimulatedEnv
from rlcore_simulation.interpreters import executable_of
from rlcore_simulation.module_links import link_modules

from rlcore.contracts.specs import Episode

CHUNK, ENTRIES = 25, 14
REPEATS = 3
HOME = np.array([0.0, -1.9, 2.35, 0.0, 1.12, 0.0, 1.0] * 2)
PEER = Path(__file__).parent / "parts" / "robotwin_peer.py"
Round = tuple[int, float, float, float]  # steps, seconds, CPU seconds, seconds of the reset


def main() -> None:
    words = parsed()
    if words.expert:
        expert_table(words.python, words.starts)
        return
    chunks = actions(words.chunks, words.envs)
    repeats = 1 if words.quick else REPEATS
    theirs = peer(words.python, words.task, chunks, repeats)
    ours = vector(words.python, words.task, chunks, repeats)
    for name, rounds in (("threads, one lock", theirs), ("processes (ours)", ours)):
        print(
            f"{name:20s} {rate(rounds, 1):7.1f} env steps/s {rate(rounds, 2):7.1f} a CPU second, "
            f"reset {median(r[3] for r in rounds):.2f} s"
        )
    print(f"{'ratio':20s} {rate(ours, 1) / rate(theirs, 1):7.2f}")


def rate(rounds: list[Round], clock: int) -> float:
    """Env steps per second of a round, resets included: the median."""
    return float(median(r[0] / r[clock] for r in rounds))


def actions(count: int, envs: int) -> np.ndarray:
    """Chunks float32 `[count, envs, 25, 14]` around where the arms start, the same for both."""
    shape = (count, envs, CHUNK, ENTRIES)
    waypoints = np.random.default_rng(0).uniform(-0.03, 0.03, shape).cumsum(axis=2)
    return (HOME + waypoints).astype(np.float32)


def peer(python: str, task: str, chunks: np.ndarray, repeats: int) -> list[Round]:
    """Threads in one process of that interpreter."""
    from rlcore_sapien.vulkan import environment

    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder, "chunks.npy"), chunks)
        modules = Path(folder, "modules")
        modules.mkdir()
        link_modules(modules, ["rlcore_env_robotwin"])
        done = subprocess.run(
            [python, str(PEER), json.dumps(task), str(repeats), f"{folder}/chunks.npy"],
            env=os.environ | environment() | {"PYTHONPATH": str(modules)},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    return [tuple(each) for each in json.loads(done.stdout.splitlines()[-1])]


def vector(python: str, task: str, chunks: np.ndarray, repeats: int) -> list[Round]:
    """Our vector env, a process for each core."""
    envs = chunks.shape[1]
    env = made(python, [task], envs, min(envs, os.cpu_count() or 1))
    starts = {"episodes": [Episode(0, row) for row in range(envs)]}
    rounds: list[Round] = []
    try:
        env.reset(options=starts)  # warm
        for _ in range(repeats):
            begin, cpu = time.perf_counter(), cpu_seconds()
            env.reset(options=starts)
            reset = time.perf_counter() - begin
            steps = sum(int(env.chunk_step(chunk).valid.sum()) for chunk in chunks)
            rounds.append((steps, time.perf_counter() - begin, cpu_seconds() - cpu, reset))
    finally:
        env.close()
    return rounds


def expert_table(python: str, starts: int) -> None:
    """Success of the expert, and what an episode costs, by task."""
    print(f"{'task':22s} {'success':>8s} {'actions':>8s} {'CPU s':>6s}")
    for task in BOXES:
        env = made(python, [task], 1, 1)
        try:
            episodes = [Episode(0, trial) for trial in range(starts)]
            env.reset(options={"episodes": episodes[:1]})  # warm
            cpu = cpu_seconds()
            shown = list(env.demonstrate(episodes, action_noise=0.0, speed=1.0, stride=CHUNK,
                                         seed=0, max_steps=400))  # fmt: skip
            cpu = cpu_seconds() - cpu
        finally:
            env.close()
        solved = sum(one.success for one in shown)
        length = np.mean([len(one.actions) for one in shown])
        rate = f"{solved}/{starts}"
        print(f"{task:22s} {rate:>8s} {length:8.0f} {cpu / starts:6.2f}", flush=True)


def made(python: str, tasks: list[str], envs: int, processes: int) -> SimulatedEnv:
    config = RoboTwinConfig(stand_ins=True, tasks=tasks, python=python)
    return make_env(config, num_envs=envs, rank=0, world_size=1, num_processes=processes)


def cpu_seconds() -> float:
    """CPU time of this process and those it has started, which still run."""
    here = psutil.Process()
    times = [process.cpu_times() for process in (here, *here.children(recursive=True))]
    return float(sum(each.user + each.system for each in times))


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--python",
        type=executable_of,
        required=True,
        help="an interpreter with SAPIEN and mplib, or folder of its environment",
    )
    parser.add_argument("--task", default=BOXES[0], choices=BOXES)
    parser.add_argument("--envs", type=int, default=4)
    parser.add_argument("--chunks", type=int, default=8, help="of 25 actions, in an episode")
    parser.add_argument("--quick", action="store_true", help="one round")
    parser.add_argument("--expert", action="store_true", help="the expert's table instead")
    parser.add_argument("--starts", type=int, default=20, help="of the expert, for each task")
    return parser.parse_args()


if __name__ == "__main__":
    main()
