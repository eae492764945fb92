"""One row of the vector env: an episode in a simulator, its rewards and its end."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from rlcore.specs import Episode
from rlcore_env_metaworld.settings import MetaWorldConfig
from rlcore_env_metaworld.simulator import Simulator


@dataclass(frozen=True)
class EpisodeRules:
    """How rewards are made and when an episode ends.

    Attributes:
        max_steps: time limit in env steps.
        dense: MetaWorld's dense reward instead of 1 where the task is solved and 0 elsewhere.
        coefficient: factor on rewards.
        relative: a step's reward is the difference to the step before (0 before the first).
        ignore_success: only the time limit ends an episode.
    """

    max_steps: int
    dense: bool
    coefficient: float
    relative: bool
    ignore_success: bool

    @classmethod
    def of(cls, config: MetaWorldConfig) -> EpisodeRules:
        return cls(
            max_steps=config.max_episode_steps,
            dense=config.reward == "dense",
            coefficient=config.reward_coef,
            relative=config.use_rel_reward,
            ignore_success=config.ignore_terminations,
        )


@dataclass
class Row:
    """State of a row. Idle until :meth:`begin`, and again after the end of its episode.

    Attributes:
        over: whether there is nothing to step.
        success: whether the episode has been solved at some step.
        steps: steps of the episode so far.
        recording: whether every frame is kept in `frames`.
    """

    rules: EpisodeRules
    simulator: Simulator | None = None
    over: bool = True
    success: bool = False
    steps: int = 0
    recording: bool = False
    frames: list[np.ndarray] = field(default_factory=list)
    _last_reward: float = 0.0

    @property
    def elapsed(self) -> float:
        """Elapsed fraction of the time limit."""
        return self.steps / self.rules.max_steps

    def begin(self, simulator: Simulator, episode: Episode) -> None:
        """Start an episode in a simulator of its task."""
        self.simulator = simulator
        simulator.start(episode.trial)
        self.over = False
        self.success = False
        self.steps = 0
        self._last_reward = 0.0

    def step(self, action: np.ndarray) -> tuple[float, bool, bool]:
        """One step: action float32 `[4]` -> reward, terminated, truncated.

        A step that solves the task at the time limit terminates and is not truncated: the
        episode has no future whose value could be wanted.
        """
        assert self.simulator is not None and not self.over
        dense_reward, solved = self.simulator.step(action)
        self.steps += 1
        self.success |= solved
        reward = self.rules.coefficient * (dense_reward if self.rules.dense else float(solved))
        gained = reward - self._last_reward if self.rules.relative else reward
        self._last_reward = reward
        terminated = solved and not self.rules.ignore_success
        truncated = self.steps >= self.rules.max_steps and not terminated
        self.over = terminated or truncated
        return gained, terminated, truncated
