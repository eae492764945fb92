"""Expose an env as a vector env of gymnasium.

    gymnasium.vector.VectorEnv -> CheckedEnv -> the plugin's env

Rows reset automatically in gymnasium's next-step mode: the step after the end of an episode starts
the next one in that row, and ignores the row's action.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from rlcore.checks.ready import find_obstacles, require
from rlcore.config.schema import RunConfig
from rlcore.contracts.errors import ConfigError, choices_message
from rlcore.contracts.protocols import Observation
from rlcore.contracts.specs import EnvSpec, Episode
from rlcore.plugins.registry import load_plugins
from rlcore.training.env_in_process import build_checked_env
from rlcore.workers.checked_env import CheckedEnv

if TYPE_CHECKING:
    from rlcore.training.play_episode import Phase

LONGEST = 4096  # most characters of an instruction
INTEGER = (int, np.integer)
OPTIONS = ("episodes", "reset_mask")
"""Keys that `options` of a reset may have."""
Info = dict[str, Any]


class GymnasiumVectorEnv(VectorEnv[Info, np.ndarray, np.ndarray]):
    """See :func:`rlcore.make_env`.

    Observations are those that a policy gets, with `cameras`, `states`, `task_descriptions` and
    `elapsed`, so `policy.select_actions(observation)` accepts them. The frames of a row that
    terminated are not rendered. `info` has `success`, `task` and `trial` of each row.

    Args:
        env: env that plays the episodes.
        trials: trials that episodes are drawn from uniformly, as is the task.
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
        rows = range(env.num_envs)
        self._generators: list[np.random.Generator] = [seeding.np_random()[0] for _ in rows]
        self._episodes = [Episode(0, trials[0]) for _ in rows]
        self._success, self._ended = (np.zeros(env.num_envs, dtype=bool) for _ in range(2))
        self._started = False

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Info, Info]:
        """Start an episode in each row, or in the rows of a mask, as gymnasium's vector envs do.

        Args:
            seed: seeds of the generators, one per row, that draw tasks and trials. A sequence has
                one seed per row, where None leaves that row's generator as it is. An int gives row
                i the seed `seed + i`. None leaves all generators as they are.
            options: `reset_mask`: bool `[B]`, rows to reset; the others keep their episode and
                their observation. `episodes`: an :class:`rlcore.contracts.specs.Episode` for each
                row, in place of a drawn one.

        Raises:
            gymnasium.error.ClosedEnvironmentError: the env is closed.
            gymnasium.error.ResetNeeded: the mask of the first reset leaves out rows.
            gymnasium.error.Error, TypeError, ValueError: a wrong seed or mask.
            ConfigError: an option that does not exist, or an episode that the env does not have.
        """
        self._require_open("reset")
        seeds, given = row_seeds(seed, self.num_envs), dict(options or {})
        for name in given:
            if name not in OPTIONS:
                raise ConfigError(
                    f"reset has no option {name!r}{choices_message(str(name), OPTIONS)}"
                )
        mask = reset_mask(given.get("reset_mask"), self.num_envs)
        if not self._started and not mask.all():
            raise gymnasium.error.ResetNeeded(
                f"the first reset must start all rows: reset_mask leaves out row "
                f"{int(np.flatnonzero(~mask)[0])}"
            )
        rows = np.flatnonzero(mask).tolist()
        asked = given.get("episodes")
        if asked is not None:
            episodes = asked_episodes(asked, self._episodes, rows, self.rlcore_spec)
        for row in rows:
            if seeds[row] is not None:
                self._generators[row] = seeding.np_random(seeds[row])[0]
        if asked is None:
            episodes = [
                self._drawn(row) if chosen else self._episodes[row]
                for row, chosen in enumerate(mask)
            ]
        observation = self._env.reset(rows, episodes)
        self._episodes, self._started = episodes, True
        self._ended[mask] = self._success[mask] = False
        return _shown(observation), self._info()

    def step(self, actions: np.ndarray) -> tuple[Info, np.ndarray, np.ndarray, np.ndarray, Info]:
        """Execute one step of all rows; rows whose episode ended start the next one instead.

        Args:
            actions: `[B, A]`, converted to float32.

        Returns:
            (observation, rewards `[B]`, terminated `[B]`, truncated `[B]`, info).

        Raises:
            gymnasium.error.ClosedEnvironmentError: the env is closed.
            gymnasium.error.ResetNeeded: there was no reset yet.
            ValueError: the actions have another shape.
        """
        self._require_open("step")
        if not self._started:
            raise gymnasium.error.ResetNeeded("step was called before the first reset")
        given, shape = np.asarray(actions, dtype=np.float32), self.action_space.shape
        if given.shape != shape:
            raise ValueError(
                f"step takes actions {shape}, one for each row, got {given.shape}; of those of a "
                "policy, [B, C, A], it takes actions[:, c]"
            )
        result = self._env.chunk_step(given[:, None])
        observation, self._success = result.observation, result.success.copy()
        terminated, truncated = result.terminated[:, 0].copy(), result.truncated[:, 0].copy()
        again = np.flatnonzero(self._ended)
        if again.size:
            for row in again.tolist():
                self._episodes[row] = self._drawn(row)
            observation = self._env.reset(again.tolist(), self._episodes)
            self._success[again] = False
        self._ended = terminated | truncated
        return _shown(observation), result.rewards[:, 0], terminated, truncated, self._info()

    def close_extras(self, **_: Any) -> None:
        """Close the env and its simulators."""
        self._env.close()

    def _require_open(self, call: str) -> None:
        if self.closed:
            raise gymnasium.error.ClosedEnvironmentError(
                f"{call} was called after close: make the env again with rlcore.make_env"
            )

    def _drawn(self, row: int) -> Episode:
        draw = self._generators[row]
        task = draw.integers(len(self.rlcore_spec.tasks))
        return Episode(int(task), self._trials[int(draw.integers(len(self._trials)))])

    def _info(self) -> Info:
        every = np.ones(self.num_envs, dtype=bool)
        told = {
            "success": self._success.copy(),
            "task": np.array([self.rlcore_spec.tasks[one.task] for one in self._episodes], object),
            "trial": np.array([one.trial for one in self._episodes]),
        }
        return {**told, **{f"_{name}": every for name in told}}


def row_seeds(seed: int | Sequence[int | None] | None, rows: int) -> list[int | None]:
    """Return the seed of each row or None, as `gymnasium.vector.SyncVectorEnv` assigns them.

    Raises:
        gymnasium.error.Error: a seed is not an integer, or is negative.
        ValueError: the number of seeds is not that of rows.
    """
    if seed is None:
        return [None] * rows
    if isinstance(seed, INTEGER):
        seeds: list[int | None] = [int(seed) + row for row in range(rows)]
    elif isinstance(seed, (Sequence, np.ndarray)) and not isinstance(seed, str):
        seeds = list(seed)
    else:
        raise gymnasium.error.Error(f"seed must be an int, one for each row, or None, got {seed!r}")
    if len(seeds) != rows:
        raise ValueError(f"seed must have an entry for each of {rows} rows, got {len(seeds)}")
    for row, each in enumerate(seeds):
        if each is not None and (not isinstance(each, INTEGER) or each < 0):
            raise gymnasium.error.Error(
                f"the seed of row {row} must be an int of at least 0, or None, got {each!r}"
            )
    return [None if each is None else int(each) for each in seeds]


def reset_mask(mask: Any, rows: int) -> np.ndarray:
    """Check the mask of rows to reset and return a copy, bool `[B]`; None stands for all rows.

    Raises:
        TypeError: the mask is not a bool array.
        ValueError: the mask has another shape, or no row is True.
    """
    if mask is None:
        return np.ones(rows, dtype=bool)
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
        kind = f"of {mask.dtype}" if isinstance(mask, np.ndarray) else type(mask).__name__
        raise TypeError(f"options['reset_mask'] must be a numpy array of bool, got {kind}")
    if mask.shape != (rows,) or not mask.any():
        raise ValueError(
            f"options['reset_mask'] must have shape ({rows},) and at least one True, got "
            f"{mask.tolist()}"
        )
    return mask.copy()


def asked_episodes(
    asked: Any, present: Sequence[Episode], rows: Sequence[int], spec: EnvSpec
) -> list[Episode]:
    """Check the episodes that a reset asks for, and return the resulting episode of each row.

    Args:
        asked: value of `options["episodes"]`, with an entry for each row.
        present: current episode of each row, returned for rows that are not reset.
        rows: numbers of the rows that are reset; only their entries are checked.
        spec: spec of the env.

    Raises:
        ConfigError: there is not one entry for each row, or an entry is not (task, trial) with an
            existing task and a trial of at least 0.
    """
    if not isinstance(asked, Sequence) or len(asked) != len(present):
        found = len(asked) if isinstance(asked, Sequence) else type(asked).__name__
        raise ConfigError(
            f"options['episodes'] must have one episode for each of {len(present)} rows, got "
            f"{found}",
            hint="options={'episodes': [(task, trial), ...]}, both by their numbers",
        )
    episodes = list(present)
    for row in rows:
        given = asked[row]
        numbers = list(given) if isinstance(given, Sequence) else []
        right = 2 <= len(numbers) <= 4 and all(isinstance(each, INTEGER) for each in numbers)
        if not right or not 0 <= numbers[0] < len(spec.tasks) or numbers[1] < 0:
            raise ConfigError(
                f"options['episodes'][{row}] is {given!r}: an episode is (task, trial), with a "
                f"task from 0 to {len(spec.tasks) - 1} and a trial of at least 0"
            )
        episodes[row] = Episode(*map(int, numbers))
    return episodes


def observation_space(spec: EnvSpec) -> spaces.Dict:
    """Return the observation space of one row."""
    frames: dict[str, spaces.Space[Any]] = {
        one.name: spaces.Box(0, 255, (one.height, one.width, 3), np.uint8) for one in spec.cameras
    }
    said = "".join(
        sorted({letter for text in spec.all_instructions for letter in text} | PRINTABLE)
    )
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
    """Return the action space of one row: float32 `[A]` with the bounds of the env's channels."""
    low, high = (
        np.concatenate([np.full(one.size, side(one), np.float32) for one in spec.actions])
        for side in (lambda one: one.low, lambda one: one.high)
    )
    return spaces.Box(low, high, dtype=np.float32)


def _shown(observation: Observation) -> Info:
    return {**observation, "task_descriptions": tuple(observation["task_descriptions"])}


def vector_env(config: RunConfig, *, num_envs: int, side: Phase) -> GymnasiumVectorEnv:
    """Build the env of a configuration as a vector env; see :func:`rlcore.make_env`."""
    if not isinstance(num_envs, INTEGER) or num_envs < 1:
        raise ConfigError(f"num_envs must be an int of at least 1, got {num_envs!r}")
    if side not in config.env.sides:
        raise ConfigError(
            f"there is no side {side!r}{choices_message(str(side), config.env.sides)}"
        )
    settings = config.env.sides[side]
    alone = replace(config, runner=replace(config.runner, only_eval=side == "eval"))
    require(find_obstacles(alone, load_plugins(), whole=False)[1])
    checked, spec = build_checked_env(config, side, int(num_envs))
    trials = spec.trials(settings.split)
    return GymnasiumVectorEnv(
        checked, trials[: settings.trials_per_task] if side == "eval" else trials
    )
