"""Define two wrappers of envs: a cost of actions, and noise on states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rlcore.config.schema import EnvWrapping, key
from rlcore.contracts.protocols import ChunkResult, Env, Observation
from rlcore.contracts.rng import generator
from rlcore.contracts.specs import EnvSpec, Episode
from rlcore.contracts.wrappers import EnvWrapper


@dataclass
class ActionCost(EnvWrapping):
    """Takes coef times the mean square of the action from each reward; units: half a range."""

    coef: float = key("cost of an action at the end of its range", 0.01, minimum=0)


class CostlyActions(EnvWrapper):
    """Subtracts a quadratic action cost from rewards, like the control cost of many benchmarks."""

    def __init__(self, env: Env, settings: ActionCost) -> None:
        super().__init__(env, env.spec)
        self._low = np.array(env.spec.action_low)
        self._high = np.array(env.spec.action_high)
        self._coef = settings.coef

    def rewards(self, actions: np.ndarray, result: ChunkResult) -> np.ndarray:
        """Return r - coef mean_a ((2 a - low - high) / (high - low))^2, with clipped actions a."""
        clipped = np.clip(actions, self._low, self._high)
        scaled = (2 * clipped - self._low - self._high) / (self._high - self._low)
        cost: np.ndarray = result.rewards - self._coef * np.square(scaled).mean(-1)
        return cost


@dataclass
class StateNoise(EnvWrapping):
    """Adds Gaussian noise to the state, so that a policy does not depend on exact values."""

    std: float = key("standard deviation of the noise, in the env's units", 0.01, minimum=0)


def noisy_spec(spec: EnvSpec, settings: StateNoise) -> EnvSpec:
    """Add the noise to `render_settings`, which evaluations record, as observations change."""
    return replace(spec, render_settings={**spec.render_settings, "state_noise": settings.std})


class NoisyStates(EnvWrapper):
    """Adds noise to states, keyed by episode and step, so that a replay has the same noise."""

    def __init__(self, env: Env, settings: StateNoise) -> None:
        super().__init__(env, noisy_spec(env.spec, settings))
        self._std = settings.std

    def observe(
        self, observation: Observation, episodes: Sequence[Episode], steps: np.ndarray
    ) -> Observation:
        """Return states s + std n, with n drawn from N(0, 1) for each entry."""
        shape = observation["states"].shape[1]
        samples = [
            generator(
                "state_noise", episode.task, episode.trial, episode.replica, int(step)
            ).normal(size=shape)
            for episode, step in zip(episodes, steps, strict=True)
        ]
        noise = self._std * np.array(samples).reshape(observation["states"].shape)
        return {**observation, "states": (observation["states"] + noise).astype(np.float32)}
