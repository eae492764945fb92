"""What the parts of an episode cost with ours and with LIBERO's env, in CPU-seconds of one process.

CPU time counts all threads, so software rendering in full, and stands still while others hold the
core: it says more than a clock on a machine that is not idle.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TypeVar

import numpy as np
from rlcore_env_libero.settings import LiberoConfig

T = TypeVar("T")
STARTS = 3
STEPS = 10


@dataclass(frozen=True)
class Costs:
    """CPU-seconds.

    Attributes:
        task: of taking up a task that the process has not played yet.
        start: of an episode of it, waiting included.
        step: with both cameras drawn after it.
        frames: both cameras alone.
    """

    task: float
    start: float
    step: float
    frames: float

    def in_chunks(self, chunk: int) -> float:
        """Of a step, where cameras are drawn once a chunk."""
        return self.step - self.frames * (chunk - 1) / chunk


def measure_ours(config: LiberoConfig) -> Costs:
    """Ours; the process must be new, and have MuJoCo's variables."""
    from rlcore_stand_ins.libero.pool import make_pool

    from rlcore.contracts.specs import Episode

    pool = make_pool(config)
    pool.take(1)  # loads robosuite and what it compiles for itself
    task, simulator = _timed(lambda: pool.take(0))
    shape = (config.image_size, config.image_size, 3)
    frames = {camera: np.zeros(shape, dtype=np.uint8) for camera in config.cameras}
    simulator.start(Episode(0, 0))
    simulator.draw(frames)
    starts = [_timed(lambda trial=trial: simulator.start(Episode(0, trial)))[0]
              for trial in range(1, STARTS + 1)]  # fmt: skip
    steps = [_timed(lambda move=move: simulator.step(move))[0] for move in _moves()]
    draws = [_timed(lambda: simulator.draw(frames))[0] for _ in range(STEPS)]
    pool.close()
    drawn = median(draws)
    return Costs(task, median(starts), median(steps) + drawn, drawn)


def measure_liberos(tasks: tuple[str, str], size: int, assets: str) -> Costs:
    """LIBERO's own; likewise."""
    from parts.libero_peer import CAMERAS, PeerEnv

    PeerEnv(tasks[1], size, Path(assets), first_trial=0).close()
    task, env = _timed(lambda: PeerEnv(tasks[0], size, Path(assets), first_trial=0))
    env.reset()
    starts = [_timed(env.reset)[0] for _ in range(STARTS)]
    steps = [_timed(lambda move=move: env.step(move))[0] for move in _moves()]
    cameras = [name.removesuffix("_image") for name in CAMERAS]
    draws = [_timed(lambda: env.draw(cameras))[0] for _ in range(STEPS)]
    env.close()
    return Costs(task, median(starts), median(steps), median(draws))


def in_a_process_of_its_own(measure: Callable[..., Costs], *arguments: object) -> Costs:
    """Two GL contexts in one process would be in each other's way."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as process:
        return process.submit(measure, *arguments).result()


def _timed(act: Callable[[], T]) -> tuple[float, T]:
    begin = time.process_time()
    result = act()
    return time.process_time() - begin, result


def _moves() -> np.ndarray:
    return np.random.default_rng(0).uniform(-1, 1, (STEPS, 7)).astype(np.float32)
