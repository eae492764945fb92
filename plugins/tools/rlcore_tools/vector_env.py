"""Show an env to others as a vector env of gymnasium.

    gymnasium.vector.VectorEnv -> CheckedEnv -> the plugin's env

An episode that has ended is followed by the next one in the same row, as gymnasium's next-step mode
has it: the step after the last one starts it, and what was to be done there is ignored.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from rlcore.api import Phase, compose
from rlcore.checks.facts import env_spec
from rlcore.config.schema import RunConfig
from rlcore.contracts.errors import ConfigError, choosing
from rlcore.contracts.protocols import Observation
from rlcore.contracts.specs import EnvSpec, Episode
from rlcore.plugins.registry import load_plugins
from rlcore.workers.checked_env import CheckedEnv as CheckedEnv
from rlcore.workers.env_worker import made_env
from rlcore.workers.restarting_env import RestartingEnv

LONGEST = 4096  # characters of a sentence
Info = dict[str, Any]


class GymnasiumVectorEnv(VectorEnv[Info, np.ndarray, np.ndarray]):
    """See :func:`rlcore.make_env`.

    An observation is the one that a policy gets, so `policy.select_actions(observation)` takes it:
    `cameras`, `states`, `task_descriptions` and `elapsed`. Of a row that terminated, frames are not
    rendered. `info` has `success`, `task` and `trial` of each row.

    Args:
        env: what plays.
        trials: the starts that episodes are drawn from, all equally often.
    """

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP, "render_modes": []}  # noqa: RUF012

    def __init__(self, env: CheckedEnv, trials: range) -> None:
        self.rlcore_spec = env.spec
        self.num_envs = env.num_envs
        self.single_observation_space = observation_space(env.spec)
        self.single_action_space = action_space(env.spec)
        self.observation_space = batch_space(self.single_observation_space, env.num_envs)
        self.action_space = batch_space(self.single_action_space, env.num_envs)
        self._env, self._trials = env, trials
        self._episodes = [Episode(0, trials[0])] * env.num_envs
        self._ended = np.zeros(env.num_envs, dtype=bool)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Info, Info]:
        """Start an episode in each row.

        Args:
            seed: of the draws of starts; None goes on with them.
            options: `episodes`: an :class:`rlcore.contracts.specs.Episode` for each row, in place
                of what would be drawn.
        """
        super().reset(seed=seed[0] if isinstance(seed, list) else seed)
        self._ended[:] = False
        rows = range(self.num_envs)
        given = (options or {}).get("episodes") or [self._drawn() for _ in rows]
        self._episodes = [Episode(*one) for one in given]
        observation = self._env.reset(rows, self._episodes)
        return _shown(observation), self._info(np.zeros(self.num_envs, dtype=bool))

    def step(self, actions: np.ndarray) -> tuple[Info, np.ndarray, np.ndarray, np.ndarray, Info]:
        """One step of all rows: actions float32 `[B, A]`."""
        given, shape = np.asarray(actions, dtype=np.float32), self.action_space.shape
        if given.shape != shape:
            raise ValueError(
                f"step takes actions {shape}, one for each row, got {given.shape}; of those of a "
                "policy, [B, C, A], it takes actions[:, c]"
            )
        result = self._env.chunk_step(given[:, None])
        observation, success = result.observation, result.success.copy()
        terminated, truncated = result.terminated[:, 0].copy(), result.truncated[:, 0].copy()
        again = np.flatnonzero(self._ended)
        if again.size:
            for row in again.tolist():
                self._episodes[row] = self._drawn()
            observation = self._env.reset(again.tolist(), self._episodes)
            success[again] = False
        self._ended = terminated | truncated
        return _shown(observation), result.rewards[:, 0], terminated, truncated, self._info(success)

    def close_extras(self, **_: Any) -> None:
        """End the simulators."""
        self._env.close()

    def _drawn(self) -> Episode:
        task = self.np_random.integers(len(self.rlcore_spec.tasks))
        return Episode(int(task), self._trials[int(self.np_random.integers(len(self._trials)))])

    def _info(self, success: np.ndarray) -> Info:
        every = np.ones(self.num_envs, dtype=bool)
        told = {
            "success": success,
            "task": np.array([self.rlcore_spec.tasks[one.task] for one in self._episodes], object),
            "trial": np.array([one.trial for one in self._episodes]),
        }
        return {**told, **{f"_{name}": every for name in told}}


def observation_space(spec: EnvSpec) -> spaces.Dict:
    """Of one row."""
    frames: dict[str, spaces.Space[Any]] = {
        one.name: spaces.Box(0, 255, (one.height, one.width, 3), np.uint8) for one in spec.cameras
    }
    said = "".join(sorted({letter for text in spec.said for letter in text} | PRINTABLE))
    return spaces.Dict(
        {
            "cameras": spaces.Dict(frames),
            "states": spaces.Box(-np.inf, np.inf, (spec.state_dim,), np.float32),
            "task_descriptions": spaces.Text(LONGEST, charset=said),
            "elapsed": spaces.Box(-np.inf, np.inf, (), np.float32),
        }
    )


PRINTABLE = {chr(code) for code in range(32, 127)}


def action_space(spec: EnvSpec) -> spaces.Box:
    """Of one row."""
    low, high = (
        np.concatenate([np.full(one.size, side(one), np.float32) for one in spec.actions])
        for side in (lambda one: one.low, lambda one: one.high)
    )
    return spaces.Box(low, high, dtype=np.float32)


def _shown(observation: Observation) -> Info:
    return {**observation, "task_descriptions": tuple(observation["task_descriptions"])}


def checked_env(config: RunConfig, side: Phase, num_envs: int) -> tuple[CheckedEnv, EnvSpec]:
    """The env of a side with so many rows, and its spec.

    Raises:
        UserError: it can't be made.
    """
    settings, registry = config.env.sides[side], load_plugins()
    target = registry.usable("env", settings.env_type).spec.target
    spec = env_spec(registry, f"env.{side}", settings)
    processes = settings.num_processes
    make = partial(
        made_env, target, settings,
        num_envs=num_envs, rank=0, world_size=1,
        num_processes=min(num_envs, os.cpu_count() or 1) if processes is None else processes,
    )  # fmt: skip
    env = RestartingEnv(make, config.cluster.simulator_restarts)
    return CheckedEnv(env, num_envs=num_envs, spec=spec, instructions=settings.sentences), spec


def make_env(name: str, *overrides: str, num_envs: int, side: Phase) -> GymnasiumVectorEnv:
    """See :func:`rlcore.make_env`."""
    if num_envs < 1:
        raise ConfigError(f"num_envs must be at least 1, got {num_envs}")
    config = compose(f"env={name}", *overrides, require=("env",))
    if side not in config.env.sides:
        raise ConfigError(f"there is no side {side!r}{choosing(side, config.env.sides)}")
    settings = config.env.sides[side]
    checked, spec = checked_env(config, side, num_envs)
    trials = spec.trials(settings.split)
    return GymnasiumVectorEnv(
        checked, trials[: settings.trials_per_task] if side == "eval" else trials
    )
