"""The same task as a gymnasium user would run it: AsyncVectorEnv, a process and a render per step.

Equal to ours: task, camera, resolution, no shadows, no antialiasing, time limit, end at success,
the policy (in this process, all cores, one batch a chunk). In the peer's favour: its starts have
no settling steps, it stores no trajectory, and it may choose its number of envs.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

if TYPE_CHECKING:
    from parts.policy import Actor

PIXELS, STATE = "pixels", "state"


@dataclass(frozen=True)
class Scene:
    """What a peer env shows and when it ends; sent to its process.

    Attributes:
        tasks: MetaWorld's names; envs take them in turn.
        sentences: what the policy is told of each.
        camera, position: camera of the scene, and where it is moved to.
        size: pixels of a side.
        max_steps: time limit.
        fast: no shadows and no antialiasing.
    """

    tasks: tuple[str, ...]
    sentences: tuple[str, ...]
    camera: str
    position: tuple[float, float, float] | None
    size: int
    max_steps: int
    fast: bool


def make_env(scene: Scene, row: int) -> gym.Env[Any, Any]:
    """One env, in the process that asks. Its settings must stand before the first frame."""
    import metaworld  # noqa: F401  registers the ids

    env = gym.make(
        "Meta-World/MT1",
        env_name=scene.tasks[row % len(scene.tasks)],
        render_mode="rgb_array",
        camera_name=scene.camera,
        width=scene.size,
        height=scene.size,
        max_episode_steps=scene.max_steps,
        terminate_on_success=True,
        disable_env_checker=True,  # it would look at every observation
    )
    model = env.unwrapped.model  # type: ignore[attr-defined]
    if scene.position is not None:
        model.cam_pos[model.camera(scene.camera).id] = scene.position
    if scene.fast:
        model.light_castshadow[:] = 0
        model.vis.quality.offsamples = 0
        model.vis.quality.shadowsize = 0
    return gym.wrappers.AddRenderObservation(
        env, render_only=False, render_key=PIXELS, obs_key=STATE
    )


def measure_peer(
    scene: Scene, actor: Actor, sizes: Sequence[int], repeats: int, cores: int
) -> dict[int, float]:
    """`{number of envs: env steps per second}`, each a median over `repeats` episode lengths."""
    import torch

    torch.set_num_threads(cores)
    return {size: _measure(scene, actor, size, repeats) for size in sizes}


def _measure(scene: Scene, actor: Actor, num_envs: int, repeats: int) -> float:
    with _one_thread_each():
        envs = gym.vector.AsyncVectorEnv(
            [functools.partial(make_env, scene, row) for row in range(num_envs)],
            context="spawn",
            autoreset_mode=gym.vector.AutoresetMode.SAME_STEP,  # every step is a step of a task
        )
    try:
        seen, _ = envs.reset(seed=0)
        clock = np.zeros(num_envs, dtype=np.int64)
        speeds = []
        for turn in range(repeats + 1):
            begin = time.perf_counter()
            seen = _episode(envs, scene, actor, seen, clock, turn)
            speeds.append(num_envs * scene.max_steps / (time.perf_counter() - begin))
        return median(speeds[1:])
    finally:
        envs.close()


def _episode(
    envs: gym.vector.AsyncVectorEnv,
    scene: Scene,
    actor: Actor,
    seen: dict[str, np.ndarray],
    clock: np.ndarray,
    turn: int,
) -> dict[str, np.ndarray]:
    """Step all envs `max_steps` times, each resetting itself where its episode ends.

    Returns the last observation; `clock` counts the steps of each env's episode.
    """
    from rlcore.contracts.specs import Episode

    tasks = [row % len(scene.tasks) for row in range(envs.num_envs)]
    sentences = [scene.sentences[task] for task in tasks]
    episodes = [Episode(task, row, turn) for row, task in enumerate(tasks)]
    for first in range(0, scene.max_steps, actor.chunk):
        # the scene's camera hangs upside down
        frames = np.ascontiguousarray(seen[PIXELS][:, ::-1, ::-1])
        observation = actor.observation(
            frames, seen[STATE][:, : actor.state_dim], clock / scene.max_steps, sentences
        )
        actions = actor.act(observation, episodes, first)
        for step in range(min(actor.chunk, scene.max_steps - first)):
            seen, _, terminated, truncated, _ = envs.step(actions[:, step])
            clock += 1
            clock[terminated | truncated] = 0
    return seen


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Env processes get one thread, as ours do; more would only fight for the cores."""
    before = dict(os.environ)
    os.environ |= {"OMP_NUM_THREADS": "1", "LP_NUM_THREADS": "1"}
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
