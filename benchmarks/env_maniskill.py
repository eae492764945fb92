"""Env steps per second of the ManiSkill vector env against gymnasium's, in one run.

    python benchmarks/env_maniskill.py [--task PushCube-v1] [--envs 4] [--size 224] [--chunks 20]
        [--obs rgb|state] [--json PATH] [--quick]

See docs/benchmarks.md for what each figure means.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:  # processes of the peer import this file again, and need none of it
    import gymnasium as gym

AIM = 2.0
CHUNK = 5
MAX_STEPS = 50
REPEATS = 3


@dataclass(frozen=True)
class Scene:
    """What both simulate; sent to the peer's processes."""

    task: str
    obs: str
    size: int


def make_peer(scene: Scene) -> gym.Env[Any, Any]:
    """One env as ManiSkill's users make it for a vector env on the CPU."""
    import gymnasium as gym
    import mani_skill.envs  # noqa: F401  registers the ids
    from mani_skill.utils.wrappers.gymnasium import CPUGymWrapper
    from rlcore_env_maniskill.backend import rendering_device

    return CPUGymWrapper(
        gym.make(
            scene.task,
            obs_mode=scene.obs,
            reward_mode="sparse",
            control_mode="pd_ee_delta_pose",
            sim_backend="physx_cpu",
            render_backend=rendering_device(),  # with ManiSkill's parser mended
            sensor_configs={"width": scene.size, "height": scene.size},
            max_episode_steps=MAX_STEPS,
        )
    )


def actions(envs: int, chunks: int) -> np.ndarray:
    """Random actions float32 `[chunks, envs, CHUNK, 7]`, the same for both."""
    draw = np.random.default_rng(0).uniform(-1, 1, (chunks, envs, CHUNK, 7))
    return draw.astype(np.float32)


def measure_peer(scene: Scene, envs: int, chunks: int) -> float:
    """Env steps per second of `AsyncVectorEnv`: a process and a frame per step and env."""
    import gymnasium as gym

    made = [functools.partial(make_peer, scene)] * envs
    vector = gym.vector.AsyncVectorEnv(made, context="spawn", shared_memory=True)
    try:
        vector.reset(seed=0)
        vector.step(np.zeros((envs, 7), dtype=np.float32))  # warm
        speeds = []
        for _ in range(REPEATS):
            vector.reset(seed=0)
            begin = time.perf_counter()
            for chunk in actions(envs, chunks):
                for step in range(CHUNK):
                    vector.step(chunk[:, step])
            speeds.append(envs * chunks * CHUNK / (time.perf_counter() - begin))
        return median(speeds)
    finally:
        vector.close()


def measure_ours(scene: Scene, envs: int, chunks: int, cores: int) -> float:
    """Env steps per second of ours. Rows that end are started anew, as the peer's are."""
    from rlcore_env_maniskill.env import make_env
    from rlcore_env_maniskill.settings import ManiSkillConfig

    from rlcore.contracts.specs import Episode

    config = ManiSkillConfig(
        tasks=[scene.task], obs_mode=scene.obs, image_size=scene.size, max_episode_steps=MAX_STEPS
    )
    env = make_env(config, num_envs=envs, rank=0, world_size=1, num_processes=min(cores, envs))
    try:
        env.reset()
        env.chunk_step(np.zeros((envs, 1, 7), dtype=np.float32))  # warm
        speeds = []
        for _ in range(REPEATS):
            env.reset()
            begin, steps, trial = time.perf_counter(), 0, 0
            for chunk in actions(envs, chunks):
                result = env.chunk_step(chunk)
                steps += int(result.valid.sum())
                ended = (result.terminated | result.truncated).any(axis=1)
                if ended.any():
                    trial += 1
                    episodes = [Episode(0, trial * envs + row) for row in range(envs)]
                    env.reset(options={"reset_mask": ended, "episodes": episodes})
            speeds.append(steps / (time.perf_counter() - begin))
        return median(speeds)
    finally:
        env.close()


def main() -> None:
    """Measure both, one after the other, and print the ratio."""
    from parts.machine import Machine
    from rlcore_sapien.vulkan import driver, environment

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default="PushCube-v1")
    parser.add_argument("--envs", type=int, default=4)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--chunks", type=int, default=20)
    parser.add_argument("--obs", choices=("rgb", "state"), default="rgb")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true", help="only shows that it runs")
    asked = parser.parse_args()
    if asked.quick:
        asked.envs, asked.chunks = 2, 3
    cores = len(os.sched_getaffinity(0))
    machine = Machine.this(cores)
    print(*machine.lines(), f"Vulkan driver {driver()}", sep="\n")
    for name, value in (environment() | {"LP_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}).items():
        os.environ.setdefault(name, value)  # for the peer's processes as for ours
    scene = Scene(asked.task, asked.obs, asked.size)
    ours = measure_ours(scene, asked.envs, asked.chunks, cores)
    peer = measure_peer(scene, asked.envs, asked.chunks)
    print(f"{asked.task}, {asked.obs} at {asked.size} px, {asked.envs} envs, chunks of {CHUNK}")
    print(f"ours            {ours:8.1f} env steps/s")
    print(f"AsyncVectorEnv  {peer:8.1f} env steps/s")
    print(f"ratio           {ours / peer:8.2f}   (aim {AIM:g} with images)")
    if asked.json is not None:
        found = {"machine": asdict(machine), "ours": ours, "peer": peer, "ratio": ours / peer}
        asked.json.write_text(json.dumps({**vars(asked), **found, "json": None}, indent=2))


if __name__ == "__main__":
    main()
