"""Simulate MetaWorld with a frame at every env step, and with episodes that end at drawn steps."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from rlcore_env_metaworld.simulator import MetaWorldSimulator
from rlcore_env_metaworld.spec import env_spec, view_of
from rlcore_mujoco.render import Renderers
from rlcore_simulation.cache import SimulatorCache
from rlcore_simulation.simulator import Step

from parts.pickled_fleet import FRAMES_OF_STEPS
from parts.reference_env import ReferenceConfig
from rlcore.contracts.rng import generator
from rlcore.contracts.specs import Episode


class ReferenceSimulator(MetaWorldSimulator):
    """A MetaWorld simulator with the switches of :class:`ReferenceConfig`."""

    def __init__(self, config: ReferenceConfig, task: str, renderers: Renderers) -> None:
        super().__init__(config, task, renderers)
        self._switches = config
        self._steps: int | None = None  # None while a start settles
        self._end = 0
        self._frames: dict[str, np.ndarray] | None = None

    def start(self, episode: Episode) -> str:
        self._steps = None
        self._frames = None
        sentence = super().start(episode)
        self._steps = 0
        limit = self._switches.max_episode_steps
        numbers = generator("end of an episode", self.task, episode.trial)
        self._end = int(numbers.integers(limit // 2, limit + 1))
        return sentence

    def step(self, action: np.ndarray) -> Step:
        outcome = super().step(action)
        if self._steps is None:
            return outcome
        self._steps += 1
        if self._switches.frame_every_step:
            size = self._switches.image_size
            frames = {self._switches.camera: np.empty((size, size, 3), dtype=np.uint8)}
            super().draw(frames)
            self._frames = frames
            if self._switches.pickled:
                FRAMES_OF_STEPS.append(frames)
        if self._switches.drawn_ends:
            solved = self._steps >= self._end
            return Step(float(solved), solved)
        return outcome

    def draw(self, out: Mapping[str, np.ndarray]) -> None:
        """Render the current state, or copy its frame if the step has rendered it."""
        if self._frames is None:
            super().draw(out)
            return
        for name, frame in out.items():
            frame[:] = self._frames[name]


def make_pool(config: ReferenceConfig) -> SimulatorCache[ReferenceSimulator]:
    """Return a pool of simulators by task, as MetaWorld's own `make_pool` does."""
    tasks = env_spec(config).tasks
    renderers = Renderers(view_of(config))
    return SimulatorCache(
        lambda task: ReferenceSimulator(config, tasks[task], renderers),
        keep=config.cached_simulators,
        drop=ReferenceSimulator.close,
    )
