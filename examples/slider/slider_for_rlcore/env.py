"""The slider: `num_envs` carts, all arrays by row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from rlcore.contracts.errors import UserError
from rlcore.contracts.protocols import ChunkResult, Demonstration, Observation
from rlcore.contracts.rng import generator
from rlcore.contracts.specs import Episode

from .settings import SliderConfig, env_spec

GOALS = np.array([-1.0, 1.0])


def make(
    config: SliderConfig, *, num_envs: int, rank: int, world_size: int, num_processes: int
) -> Slider:
    return Slider(config, num_envs)


class Slider:
    def __init__(self, config: SliderConfig, num_envs: int) -> None:
        self.spec = env_spec(config)
        self.num_envs = num_envs
        self._config = config
        self._position = np.zeros(num_envs)
        self._task = np.zeros(num_envs, dtype=int)
        self._steps = np.zeros(num_envs, dtype=int)
        self._running = np.zeros(num_envs, dtype=bool)
        self._success = np.zeros(num_envs, dtype=bool)
        self._last_reward = np.zeros(num_envs)
        self._films: dict[int, list[np.ndarray]] = {}

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        options = options or {}
        default = [Episode(row % 2, (seed or 0) + row) for row in range(self.num_envs)]
        episodes = options.get("episodes", default)
        for row in np.flatnonzero(options.get("reset_mask", np.ones(self.num_envs))):
            task, trial, *_ = episodes[row]
            # the address alone fixes the start: same (task, trial), same position
            self._position[row] = generator("slider", task, trial).uniform(-0.3, 0.3)
            self._task[row] = task
            self._steps[row] = 0
            self._last_reward[row] = 0.0
            self._running[row] = True
            self._success[row] = False
        return self._observe(), {}

    def step(
        self, actions: np.ndarray
    ) -> tuple[Observation, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        result = self.chunk_step(actions[:, None])
        terminated, truncated = result.terminated[:, 0], result.truncated[:, 0]
        return result.observation, result.rewards[:, 0], terminated, truncated, {}

    def chunk_step(self, actions: np.ndarray) -> ChunkResult:
        rows, chunk = actions.shape[:2]
        config = self._config
        rewards = np.zeros((rows, chunk), np.float32)
        terminated, truncated, valid = (np.zeros((rows, chunk), bool) for _ in range(3))
        for c in range(chunk):
            run = valid[:, c] = self._running.copy()  # a row that has ended stays as it is
            self._position[run] += config.speed * np.clip(actions[run, c, 0], -1, 1)
            self._position = np.clip(self._position, -1, 1)
            self._steps[run] += 1
            reached = run & (np.abs(self._position - GOALS[self._task]) < 0.1)
            reward = config.reward_coef * reached
            rewards[:, c] = run * (reward - self._last_reward * config.use_rel_reward)
            self._last_reward = np.where(run, reward, self._last_reward)
            terminated[:, c] = reached & (not config.ignore_terminations)
            over = self._steps >= self.spec.max_episode_steps
            truncated[:, c] = run & over & ~terminated[:, c]
            self._success |= reached
            self._running &= ~(terminated[:, c] | truncated[:, c])
            for row, film in self._films.items():
                if run[row]:
                    film.append(self._draw(row))
        return ChunkResult(
            self._observe(), rewards, terminated, truncated, valid, self._success.copy()
        )

    def demonstrate(
        self,
        episodes: Sequence[Episode],
        *,
        action_noise: float,
        speed: float,
        stride: int,
        seed: int,
        max_steps: int | None = None,
    ) -> Iterator[Demonstration]:
        raise UserError("the slider has no expert")

    def record(self, rows: Sequence[int]) -> None:
        self._films = {row: [] for row in rows}

    def recorded(self) -> dict[int, list[np.ndarray]]:
        films = self._films
        self._films = {row: [] for row in films}
        return {row: film for row, film in films.items() if film}

    def close(self) -> None:
        pass

    def _observe(self) -> Observation:
        return {
            "cameras": {"front": np.stack([self._draw(row) for row in range(self.num_envs)])},
            "states": self._position[:, None].astype(np.float32),
            "task_descriptions": [self.spec.instructions[task] for task in self._task],
            "elapsed": (self._steps / self.spec.max_episode_steps).astype(np.float32),
        }

    def _draw(self, row: int) -> np.ndarray:
        frame = np.zeros((16, 16, 3), np.uint8)
        frame[6:10, round((self._position[row] + 1) * 7.5)] = 255
        return frame
