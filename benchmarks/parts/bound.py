"""The components of a rollout standing alone, in CPU-seconds, and the speed they would allow.

    bound = env_steps / ((steps * step + resets * reset + decisions * (frame + row)) / cores)

as if every core did nothing but useful work, at the pace of a component that has the machine to
itself. Each component runs by itself in this process, single-threaded, and is timed by the
process's CPU clock: it counts all threads, so software GL in full, and stands still while other
processes hold the core. The policy runs at the batch that suits it best.

Cores share caches, memory and sometimes a physical core, so a component that is not alone on the
machine needs more CPU time for the same work. :func:`crowded` keeps the other cores busy with
simulation of their own; costs measured under it say what of the distance to the bound no rollout
on all cores could avoid.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from statistics import median

import numpy as np
import torch
from rlcore_env_metaworld.pool import make_pool
from rlcore_env_metaworld.settings import MetaWorldConfig
from rlcore_env_metaworld.simulator import MetaWorldSimulator

from parts.ours import Work
from parts.policy import Actor
from rlcore.contracts.specs import EnvSpec, Episode

POLICY_REPEATS = 5  # of each batch size, after one to warm up
START_SECONDS = 300.0  # for the processes of a crowd to build their simulators
CROWD_STEPS = 10  # between frames of a crowd, as in a chunk


@dataclass(frozen=True)
class TaskCosts:
    """CPU-seconds of one use of each part of a task's simulation.

    Attributes:
        reset: an exact start, settling steps included, nothing drawn.
        step: one physics step with its reward, nothing drawn.
        frame: one frame.
    """

    reset: float
    step: float
    frame: float


@dataclass(frozen=True)
class Costs:
    """CPU-seconds of one use of each component.

    Attributes:
        tasks: of simulation, by task.
        rows: `{batch: per row}` of a decision: preparing the observation and acting on it.
    """

    tasks: tuple[TaskCosts, ...]
    rows: dict[int, float]

    @property
    def best_batch(self) -> int:
        return min(self.rows, key=lambda batch: self.rows[batch])

    def cpu(self, work: Sequence[Work]) -> dict[str, float]:
        """CPU-seconds the work of each task needs in all, by component."""
        pairs = list(zip(work, self.tasks, strict=True))
        return {
            "reset": sum(one.episodes * cost.reset for one, cost in pairs),
            "physics": sum(one.env_steps * cost.step for one, cost in pairs),
            "render": sum(one.decisions * cost.frame for one, cost in pairs),
            "policy": sum(one.decisions for one in work) * self.rows[self.best_batch],
        }

    def speed(self, work: Sequence[Work], cores: int) -> float:
        """Env steps per second with all cores busy all the time."""
        return sum(one.env_steps for one in work) * cores / sum(self.cpu(work).values())


def measure_costs(
    config: MetaWorldConfig, spec: EnvSpec, actor: Actor, episodes: int, batches: Sequence[int]
) -> Costs:
    """Play `episodes` of each task with the policy to have its actions, then time each component
    alone. Costs are medians; the first episode of a task warms up and is left out."""
    torch.set_num_threads(1)
    costs, frames = [], []
    for task in range(len(spec.tasks)):
        cost, seen = _measure_task(config, spec, actor, task, episodes)
        costs.append(cost)
        frames += seen
    return Costs(tuple(costs), {batch: _decide(actor, frames, batch) for batch in batches})


def _measure_task(
    config: MetaWorldConfig, spec: EnvSpec, actor: Actor, task: int, episodes: int
) -> tuple[TaskCosts, list[np.ndarray]]:
    """Costs of a task, and the frames the policy saw."""
    pool = make_pool(config)
    simulator = pool.take(task)
    trials = spec.trials(config.split)[: episodes + 1]
    played, frames = [], []
    for trial in trials:
        actions, seen = _play(simulator, config, spec, actor, task, trial)
        played.append((trial, actions))
        frames += seen
    simulated = [_simulate(simulator, task, *one) for one in played][1:]
    drawn = [_draw(simulator, config, task, *one, actor.chunk) for one in played][1:]
    pool.close()
    return TaskCosts(
        reset=median(reset for reset, _ in simulated),
        step=median(step for _, step in simulated),
        frame=median(drawn),
    ), frames


def _play(
    simulator: MetaWorldSimulator,
    config: MetaWorldConfig,
    spec: EnvSpec,
    actor: Actor,
    task: int,
    trial: int,
) -> tuple[np.ndarray, list[np.ndarray]]:
    """An episode with the policy, untimed: its actions float32 `[L, A]` and frames it saw."""
    executed: list[np.ndarray] = []
    frames: list[np.ndarray] = []
    solved = False
    simulator.start(Episode(task, trial))
    while not solved and len(executed) < config.max_episode_steps:
        frame = np.empty((config.image_size, config.image_size, 3), dtype=np.uint8)
        simulator.draw({config.camera: frame})
        frames.append(frame)
        elapsed = len(executed) / config.max_episode_steps
        observation = actor.observation(
            frame[None], simulator.states[None], np.array([elapsed]), [spec.instructions[task]]
        )
        chunk = actor.act(observation, [Episode(task, trial)], len(frames) - 1)[0]
        for action in chunk[: config.max_episode_steps - len(executed)]:
            solved = simulator.step(action).success
            executed.append(action)
            if solved:
                break
    return np.stack(executed), frames


def _simulate(
    simulator: MetaWorldSimulator, task: int, trial: int, actions: np.ndarray
) -> tuple[float, float]:
    """CPU-seconds of a reset, and of a step."""
    begin = time.process_time()
    simulator.start(Episode(task, trial))
    started = time.process_time()
    for action in actions:
        simulator.step(action)
    return started - begin, (time.process_time() - started) / len(actions)


def _draw(
    simulator: MetaWorldSimulator,
    config: MetaWorldConfig,
    task: int,
    trial: int,
    actions: np.ndarray,
    chunk: int,
) -> float:
    """CPU-seconds of a frame: the median over those the policy would see."""
    out = np.empty((config.image_size, config.image_size, 3), dtype=np.uint8)
    spent = []
    simulator.start(Episode(task, trial))
    for number, action in enumerate(actions):
        if number % chunk == 0:
            begin = time.process_time()
            simulator.draw({config.camera: out})
            spent.append(time.process_time() - begin)
        simulator.step(action)
    return median(spent)


def _decide(actor: Actor, frames: list[np.ndarray], batch: int) -> float:
    """CPU-seconds per row of a decision on `batch` rows."""
    rows = np.stack([frames[row % len(frames)] for row in range(batch)])
    states = np.zeros((batch, actor.state_dim), dtype=np.float32)
    observation = actor.observation(rows, states, np.zeros(batch), [actor.sentence] * batch)
    spent = []
    for turn in range(POLICY_REPEATS + 1):
        begin = time.process_time()
        actor.act(observation, [Episode(0, row) for row in range(batch)], turn)
        spent.append((time.process_time() - begin) / batch)
    return median(spent[1:])


@contextmanager
def crowded(config: MetaWorldConfig, spec: EnvSpec, others: int) -> Iterator[None]:
    """`others` processes that simulate and draw without a pause, until the block ends."""
    spawn = multiprocessing.get_context("spawn")
    ready = spawn.Barrier(others + 1)
    processes = [
        spawn.Process(target=_keep_busy, args=(config, spec, ready), daemon=True)
        for _ in range(others)
    ]
    try:
        for process in processes:
            process.start()
        ready.wait(START_SECONDS)
        yield
    finally:
        for process in processes:
            process.kill()
            process.join()


def _keep_busy(config: MetaWorldConfig, spec: EnvSpec, ready: Barrier) -> None:
    simulator = make_pool(config).take(0)
    out = np.empty((config.image_size, config.image_size, 3), dtype=np.uint8)
    motion = np.zeros(spec.action_dim, dtype=np.float32)
    simulator.start(Episode(0, spec.trials(config.split)[0]))
    ready.wait()
    while True:  # until it is killed
        simulator.draw({config.camera: out})
        for _ in range(CROWD_STEPS):
            simulator.step(motion)
