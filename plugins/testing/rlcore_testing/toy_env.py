"""A vector env in numpy: a point in a square, seen by a 16 px camera. Runs in microseconds.

It is the smallest complete implementation of :class:`rlcore.contracts.protocols.Env`, to test
against and to copy from when writing an env.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rlcore.contracts.protocols import ChunkResult, Demonstration, Observation
from rlcore.contracts.rng import generator
from rlcore.contracts.specs import Episode
from rlcore_testing.toy_settings import GOALS, IMAGE_SIZE, ToyEnvConfig, env_spec

SPEED = 0.15  # distance covered by a full action in one step
REACH = 0.15  # distance to the goal that counts as success


def make(
    config: ToyEnvConfig, *, num_envs: int, rank: int, world_size: int, num_processes: int
) -> ToyEnv:
    """Build the env; the factory that the plugin registers. Rank and processes have no effect."""
    return ToyEnv(config, num_envs)


class ToyEnv:
    """A point that moves in the square [-1, 1]^2; see :class:`rlcore.contracts.protocols.Env`."""

    def __init__(self, config: ToyEnvConfig, num_envs: int) -> None:
        self.spec = env_spec(config)
        self.num_envs = num_envs
        self._config = config
        self._goals = np.array([GOALS[task] for task in self.spec.tasks], dtype=np.float32)
        self._position = np.zeros((num_envs, 2), dtype=np.float32)
        self._task = np.zeros(num_envs, dtype=np.int64)
        self._steps = np.zeros(num_envs, dtype=np.int64)
        self._running = np.zeros(num_envs, dtype=bool)
        self._success = np.zeros(num_envs, dtype=bool)
        self._last_reward = np.zeros(num_envs, dtype=np.float32)
        self._recorded: dict[int, list[np.ndarray]] = {}
        self._total_steps = 0
        self._suspended: np.ndarray | None = None  # positions while suspended; None: it is not

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        options = options or {}
        mask = options["reset_mask"] if "reset_mask" in options else np.ones(self.num_envs, bool)
        episodes = options["episodes"] if "episodes" in options else self._default(seed)
        for row in np.flatnonzero(mask):
            self._start(int(row), episodes[row])
        return self._observe(), {}

    def step(
        self, actions: np.ndarray
    ) -> tuple[Observation, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        result = self.chunk_step(actions[:, None])
        ends = result.terminated[:, 0], result.truncated[:, 0]
        return result.observation, result.rewards[:, 0], *ends, {"success": result.success}

    def chunk_step(self, actions: np.ndarray) -> ChunkResult:
        rows, chunk = actions.shape[:2]
        rewards = np.zeros((rows, chunk), dtype=np.float32)
        terminated, truncated, valid = (np.zeros((rows, chunk), dtype=bool) for _ in range(3))
        for c in range(chunk):
            valid[:, c] = self._running
            rewards[:, c], terminated[:, c], truncated[:, c] = self._advance(actions[:, c])
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
        limit = self.spec.max_episode_steps if max_steps is None else max_steps
        for episode in episodes:
            env = ToyEnv(replace(self._config, max_episode_steps=limit), 1)
            env.reset(options={"episodes": [episode]})
            noise = generator(seed, "toy noise", *episode)
            frames, states, actions = (list[np.ndarray]() for _ in range(3))
            while env._running[0]:
                gap = env._goals[env._task[0]] - env._position[0]
                action = np.clip(gap / SPEED, -1.0, 1.0).astype(np.float32) * speed
                if len(actions) % stride == 0:
                    frames.append(env._draw(0))
                states.append(env._position[0].copy())
                actions.append(action)
                executed = action + noise.normal(0.0, action_noise, 2)
                env._advance(executed[None].astype(np.float32))  # the cast a policy's actions get
            yield Demonstration(
                episode=episode,
                instruction=self.spec.instructions[episode.task],
                frames={"top": np.stack(frames)},
                frame_steps=np.arange(0, len(actions), stride, dtype=np.int64),
                states=np.stack(states),
                actions=np.stack(actions),
                success=bool(env._success[0]),
            )

    def record(self, rows: Sequence[int]) -> None:
        self._recorded = {row: [] for row in rows}

    def recorded(self) -> dict[int, list[np.ndarray]]:
        frames = {row: kept for row, kept in self._recorded.items() if kept}
        self._recorded = {row: [] for row in self._recorded}
        return frames

    def suspend(self) -> None:
        if self._suspended is None:
            self._suspended = self._position
            self._position = np.full_like(self._position, np.nan)

    def resume(self) -> None:
        if self._suspended is not None:
            self._position = self._suspended
            self._suspended = None

    def close(self) -> None:
        """Do nothing: the env holds no resources."""

    # -- simulation -------------------------------------------------------------------------

    def _default(self, seed: int | None) -> list[Episode]:
        """Choose an episode for each row, for a reset that names none."""
        draw = generator(seed if seed is not None else 0, "toy")
        tasks = len(self.spec.tasks)
        trials = self.spec.train_trials
        return [
            Episode(int(draw.integers(tasks)), trials[int(draw.integers(len(trials)))])
            for _ in range(self.num_envs)
        ]

    def _start(self, row: int, episode: Episode) -> None:
        """Start an episode in a row: (task, trial) alone determine where the point starts."""
        draw = generator("toy start", self.spec.tasks[episode.task], episode.trial)
        self._position[row] = draw.uniform(-0.4, 0.4, 2)
        self._task[row] = episode.task
        self._steps[row] = 0
        self._running[row] = True
        self._success[row] = False
        self._last_reward[row] = 0.0

    def _advance(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Simulate one step of the running rows.

        Args:
            actions: float32 `[B, 2]`.

        Returns:
            (rewards float32 `[B]`, terminated bool `[B]`, truncated bool `[B]`).
        """
        running = self._running.copy()
        self._total_steps += 1
        if self._config.fail_at is not None and self._total_steps >= self._config.fail_at:
            self._fail()
        moved = self._position + SPEED * np.clip(actions, -1.0, 1.0)
        self._position[running] = np.clip(moved, -1.0, 1.0)[running]
        self._steps[running] += 1
        distance = np.linalg.norm(self._position - self._goals[self._task], axis=1)
        reached = running & (distance < REACH)
        self._success |= reached
        reward = reached.astype(np.float32) * self._config.reward_coef
        change = reward - self._last_reward
        self._last_reward = np.where(running, reward, self._last_reward)
        # under ignore_terminations success is noted, and the episode continues to its time limit
        terminated = reached & (not self._config.ignore_terminations)
        truncated = running & ~terminated & (self._steps >= self.spec.max_episode_steps)
        self._running &= ~(terminated | truncated)
        for row, frames in self._recorded.items():
            if running[row]:
                frames.append(self._draw(row))
        rewards = change if self._config.use_rel_reward else reward
        return np.where(running, rewards, 0.0).astype(np.float32), terminated, truncated

    def _fail(self) -> None:
        """Fail as a simulator may: by an error, a crash of the process, or a hang."""
        if self._config.fail_how == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if self._config.fail_how == "hang":
            signal.pause()
        raise RuntimeError(f"the toy simulator was told to fail at step {self._total_steps}")

    # -- observation ------------------------------------------------------------------------

    def _observe(self) -> Observation:
        return {
            "cameras": {"top": np.stack([self._draw(row) for row in range(self.num_envs)])},
            "states": self._position.copy(),
            "task_descriptions": [self.spec.instructions[task] for task in self._task],
            "elapsed": (self._steps / self.spec.max_episode_steps).astype(np.float32),
        }

    def _draw(self, row: int) -> np.ndarray:
        """Return a row's frame, uint8 `[16, 16, 3]`: the point as a white 3x3 square on black."""
        frame = np.zeros((IMAGE_SIZE, IMAGE_SIZE, 3), dtype=np.uint8)
        x, y = ((self._position[row] + 1.0) / 2.0 * (IMAGE_SIZE - 1)).round().astype(int)
        frame[max(y - 1, 0) : y + 2, max(x - 1, 0) : x + 2] = 255
        return frame
