"""Define the base class of wrappers of envs, which change rewards and observations alone.

    the env -> wrapper -> wrapper -> the run

A wrapper is a component of kind `wrapper`, see :class:`rlcore.config.schema.EnvWrapping`. It can't
change success, termination or truncation, so that the env itself measures success.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rlcore.contracts.protocols import ChunkResult, Demonstration, Env, Observation
from rlcore.contracts.specs import EnvSpec, Episode

SEALED_METHODS = ("reset", "step", "chunk_step")
"""Methods that a subclass of :class:`EnvWrapper` must not override."""


class EnvWrapper:
    """An env with changed rewards or observations, B rows and chunks of C steps.

    A subclass overrides some of the first four methods: :meth:`begin`, :meth:`rewards`,
    :meth:`observe` and :meth:`demonstration`.
    """

    def __init__(self, env: Env, spec: EnvSpec) -> None:
        self._env = env
        self.spec = spec
        self.num_envs = env.num_envs
        self._episodes = [Episode(0, 0)] * env.num_envs
        self._steps = np.zeros(env.num_envs, dtype=np.int64)

    def begin(self, rows: np.ndarray) -> None:
        """Clear any state of these rows, int64 `[n]`, in which new episodes start."""

    def rewards(self, actions: np.ndarray, result: ChunkResult) -> np.ndarray:
        """Return the rewards `[B, C]` of a chunk.

        Rewards of steps that were not executed (`result.valid` is False) are ignored.

        Args:
            actions: float32 `[B, C, A]`.
            result: result of the wrapped env.
        """
        return result.rewards

    def observe(
        self, observation: Observation, episodes: Sequence[Episode], steps: np.ndarray
    ) -> Observation:
        """Return the observation for the policy, without changing `observation` in place.

        Args:
            observation: observation of the wrapped env.
            episodes: current episode of each row.
            steps: int64 `[B]`, env steps executed in each row's episode.
        """
        return observation

    def demonstration(self, demonstration: Demonstration) -> Demonstration:
        """Return a demonstration with the observations' layout that :meth:`observe` returns."""
        return demonstration

    # -- not overridden by subclasses ------------------------------------------------------

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        observation, infos = self._env.reset(seed=seed, options=options)
        options = options or {}
        rows = np.flatnonzero(options.get("reset_mask", np.ones(self.num_envs, dtype=bool)))
        for row in rows.tolist():
            if "episodes" in options:
                self._episodes[row] = options["episodes"][row]
        self._steps[rows] = 0
        self.begin(rows)
        return self.observe(observation, self._episodes, self._steps), infos

    def step(
        self, actions: np.ndarray
    ) -> tuple[Observation, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        result = self.chunk_step(actions[:, None])
        ends = result.terminated[:, 0], result.truncated[:, 0]
        return result.observation, result.rewards[:, 0], *ends, {"success": result.success}

    def chunk_step(self, actions: np.ndarray) -> ChunkResult:
        result = self._env.chunk_step(actions)
        self._steps += result.valid.sum(1)
        rewards = np.where(result.valid, self.rewards(actions, result), 0)
        observation = self.observe(result.observation, self._episodes, self._steps)
        return replace(result, rewards=rewards.astype(np.float32), observation=observation)

    def demonstrate(self, episodes: Sequence[Episode], **settings: Any) -> Iterator[Demonstration]:
        return map(self.demonstration, self._env.demonstrate(episodes, **settings))

    def record(self, rows: Sequence[int]) -> None:
        self._env.record(rows)

    def recorded(self) -> dict[int, list[np.ndarray]]:
        return self._env.recorded()

    def suspend(self) -> None:
        self._env.suspend()  # type: ignore[attr-defined]  # called only if spec.suspends

    def resume(self) -> None:
        self._env.resume()  # type: ignore[attr-defined]

    def close(self) -> None:
        self._env.close()
