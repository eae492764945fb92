"""Env steps per second of the LIBERO vector env against gymnasium's, in one run.

    python benchmarks/env_libero.py [--suite libero_object] [--task NAME] [--envs 4] [--size 128]
        [--chunk 5] [--steps 100] [--stand-ins] [--json PATH] [--quick]

See docs/benchmarks.md for what each figure means.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
import psutil

if TYPE_CHECKING:  # processes of the peer import this file again, and need none of it
    import gymnasium as gym
    from rlcore_env_libero.settings import LiberoConfig

AIM = 3.0
REPEATS = 3


@dataclass(frozen=True)
class Scene:
    """What both simulate; sent to the peer's processes.

    Attributes:
        task: LIBERO's name.
        size: height and width of both cameras' frames.
        steps: of an episode.
        assets: folder of LIBERO's assets, or of stand-ins for them.
    """

    task: str
    size: int
    steps: int
    assets: str


@dataclass(frozen=True)
class Speed:
    """How fast a vector env was.

    Attributes:
        per_second: env steps, resets included; the median of the rounds.
        per_cpu_second: the same over the CPU time of all its processes, in all rounds together.
            Two processes get less of a machine that is not idle than four; this does not see that.
        reset: seconds of a reset of all envs, a median.
    """

    per_second: float
    per_cpu_second: float
    reset: float


@dataclass(frozen=True)
class Side:
    """One of the vector envs, made and warm.

    Attributes:
        reset: starts all its envs.
        play: an episode of each; returns the env steps it made.
    """

    reset: Callable[[], object]
    play: Callable[[], int]


@dataclass(frozen=True)
class Round:
    """An episode of each env: seconds of its reset, of all of it, CPU time, and env steps."""

    reset: float
    seconds: float
    cpu: float
    steps: int


def played(side: Side) -> Round:
    """A round of it. The other side waits meanwhile, so the CPU time is this one's alone."""
    cpu, begin = cpu_seconds(), time.perf_counter()
    side.reset()
    reset = time.perf_counter() - begin
    steps = side.play()
    return Round(reset, time.perf_counter() - begin, cpu_seconds() - cpu, steps)


def in_turn(sides: Mapping[str, Side], repeats: int) -> dict[str, Speed]:
    """`repeats` rounds of each, by turns: whatever else the machine does meets all sides alike.
    Every second time the last side begins."""
    rounds: dict[str, list[Round]] = {name: [] for name in sides}
    for repeat in range(repeats):
        for name in list(sides)[:: -1 if repeat % 2 else 1]:
            rounds[name].append(played(sides[name]))
    return {name: speed_of(each) for name, each in rounds.items()}


def speed_of(rounds: Sequence[Round]) -> Speed:
    """Of all rounds of a side."""
    return Speed(
        per_second=median(each.steps / each.seconds for each in rounds),
        per_cpu_second=sum(each.steps for each in rounds) / sum(each.cpu for each in rounds),
        reset=median(each.reset for each in rounds),
    )


def cpu_seconds() -> float:
    """CPU time of this process and those it has started, which still run."""
    here = psutil.Process()
    times = [process.cpu_times() for process in (here, *here.children(recursive=True))]
    return float(sum(each.user + each.system for each in times))


def make_peer(scene: Scene, row: int) -> gym.Env:
    """One of LIBERO's envs, as its users make them for evaluation."""
    from parts.libero_peer import PeerEnv

    return PeerEnv(scene.task, scene.size, Path(scene.assets), first_trial=row)


def actions(steps: int, envs: int) -> np.ndarray:
    """Random actions float32 `[steps, envs, 7]`, the same for both."""
    return np.random.default_rng(0).uniform(-1, 1, (steps, envs, 7)).astype(np.float32)


@contextmanager
def peer_side(scene: Scene, envs: int) -> Iterator[Side]:
    """`AsyncVectorEnv`: a process and a frame of each camera per env and step."""
    import gymnasium as gym

    vector = gym.vector.AsyncVectorEnv(
        [functools.partial(make_peer, scene, row) for row in range(envs)],
        context="spawn",
        shared_memory=True,
        autoreset_mode=gym.vector.AutoresetMode.DISABLED,
    )

    def play() -> int:
        for action in actions(scene.steps, envs):
            vector.step(action)
        return envs * scene.steps

    try:
        vector.reset()
        vector.step(np.zeros((envs, 7), dtype=np.float32))  # warm
        yield Side(vector.reset, play)
    finally:
        vector.close()


@contextmanager
def our_side(config: LiberoConfig, envs: int, chunk: int, cores: int) -> Iterator[Side]:
    """The same of ours, with the first task of `config`."""
    from rlcore_env_libero.env import make_env

    from rlcore.contracts.specs import Episode

    env = make_env(config, num_envs=envs, rank=0, world_size=1, num_processes=min(cores, envs))
    trials = itertools.count()

    def reset() -> None:
        env.reset(options={"episodes": [Episode(0, next(trials)) for _ in range(envs)]})

    def play() -> int:
        steps, moves = 0, actions(config.max_episode_steps, envs)
        for start in range(0, config.max_episode_steps, chunk):
            result = env.chunk_step(moves[start : start + chunk].swapaxes(0, 1).copy())
            steps += int(result.valid.sum())
        return steps

    try:
        reset()
        env.chunk_step(np.zeros((envs, 1, 7), dtype=np.float32))  # warm
        yield Side(reset, play)
    finally:
        env.close()


def main() -> None:
    """Measure both by turns, and print the ratio."""
    from parts.libero_costs import in_a_process_of_its_own, measure_liberos, measure_ours
    from parts.machine import Machine
    from rlcore_env_libero.assets import assets_folder
    from rlcore_env_libero.installed import libero_folder
    from rlcore_env_libero.quiet import load_libero
    from rlcore_env_libero.settings import LiberoConfig
    from rlcore_env_libero.suites import SUITES
    from rlcore_mujoco.gl import choose_gl
    from rlcore_stand_ins.libero.write import write_stand_ins

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suite", default="libero_object", choices=list(SUITES))
    parser.add_argument("--task", help="of the suite; otherwise its first one")
    parser.add_argument("--envs", type=int, default=4)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--chunk", type=int, default=5)
    parser.add_argument("--steps", type=int, default=100, help="of an episode")
    parser.add_argument("--stand-ins", action="store_true", help="in place of LIBERO's assets")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true", help="only shows that it runs")
    asked = parser.parse_args()
    repeats = REPEATS
    if asked.quick:
        asked.envs, asked.steps, asked.size, repeats = 2, 10, 32, 1
    cores = len(os.sched_getaffinity(0))
    machine = Machine.this(cores)
    gl = choose_gl()
    print(*machine.lines(), f"GL {gl}", sep="\n")
    variables = {"MUJOCO_GL": gl or "", "LP_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    for name, value in variables.items():
        os.environ.setdefault(name, value)  # for the peer's processes as for ours
    with tempfile.TemporaryDirectory(prefix="rlcore-libero-") as folder:
        assets = Path(folder) if asked.stand_ins else assets_folder(None)
        if asked.stand_ins:
            load_libero(libero_folder())  # whose classes say what they need
            write_stand_ins(Path(folder))
        task = asked.task or SUITES[asked.suite][0]
        other = next(each for each in SUITES[asked.suite] if each != task)
        scene = Scene(task, asked.size, asked.steps, str(assets))
        config = LiberoConfig(
            suite=asked.suite,
            tasks=[task, other],
            image_size=asked.size,
            max_episode_steps=asked.steps,
            stand_ins=asked.stand_ins,
        )
        costs = {
            "ours": in_a_process_of_its_own(measure_ours, config),
            "LIBERO's": in_a_process_of_its_own(
                measure_liberos, (task, other), asked.size, scene.assets
            ),
        }
        with (
            our_side(config, asked.envs, asked.chunk, cores) as our_env,
            peer_side(scene, asked.envs) as their_env,
        ):
            speeds = in_turn({"ours": our_env, "AsyncVectorEnv": their_env}, repeats)
    ours, peer = speeds["ours"], speeds["AsyncVectorEnv"]
    what = "stand-ins" if asked.stand_ins else "LIBERO's assets"
    print(f"{task}, {what}")
    print(f"two cameras at {asked.size} px, {asked.envs} envs, episodes of {asked.steps} steps, "
          f"chunks of {asked.chunk}")  # fmt: skip
    print("CPU-seconds     a new task   a start    a step   both cameras   a step of a chunk")
    for name, cost in costs.items():
        step = cost.in_chunks(asked.chunk) if name == "ours" else cost.step
        print(f"{name:14} {cost.task:11.2f} {cost.start:9.2f} {cost.step:9.3f} {cost.frames:14.3f} "
              f"{step:19.3f}")  # fmt: skip
    print("env steps            a second   a CPU-second   seconds of a reset of all envs")
    for name, speed in speeds.items():
        print(
            f"{name:17} {speed.per_second:11.2f} {speed.per_cpu_second:14.2f} {speed.reset:32.2f}"
        )
    ratio = ours.per_second / peer.per_second
    cpu_ratio = ours.per_cpu_second / peer.per_cpu_second
    print(f"{'ratio':17} {ratio:11.2f} {cpu_ratio:14.2f}   (aim {AIM:g})")
    if asked.json is not None:
        found = {"machine": asdict(machine), "ours": asdict(ours), "peer": asdict(peer),
                 "ratio": ratio, "cpu_ratio": cpu_ratio,
                 "parts": {name: asdict(cost) for name, cost in costs.items()}}  # fmt: skip
        asked.json.write_text(json.dumps({**vars(asked), **found, "json": None}, indent=2))


if __name__ == "__main__":
    main()
