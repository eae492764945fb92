"""Wrap a plugin's env: map task numbers and instructions, and validate what the env returns.

    stage -> CheckedEnv -> RestartingEnv -> the plugin's env

A plugin's env does not know which of its tasks are selected, nor which instructions the policy
gets. Tasks are matched by name, and the run's task numbers are translated to the env's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rlcore.config.schema.env import OWN_INSTRUCTIONS
from rlcore.contracts.errors import EnvError
from rlcore.contracts.protocols import ChunkResult, Demonstration, Observation
from rlcore.contracts.specs import EnvSpec, Episode
from rlcore.validation.env import (
    as_contract_types,
    check_actions,
    chunk_fault,
    demonstration_fault,
    films_fault,
    observation_fault,
)
from rlcore.validation.faults import Fault, describe
from rlcore.workers.restarting_env import RestartingEnv, require_same_versions

CHECKED_OBSERVATIONS = 3
"""Number of first observations that are checked for later writes by the env."""
PLANNED = ("action_dim", "max_episode_steps", "cameras", "states", "actions")
"""Facts of a spec that must equal the planned ones."""


class CheckedEnv:
    """Wrapper of an env that validates its results and translates tasks and instructions.

    Args:
        env: the env.
        num_envs: number of rows for which the env was built.
        spec: spec with which the run was planned; None: the env's own.
        instructions: instruction of each task, by the task's name (`env.*.sentences`), or `own`:
            the env's own instructions.

    Attributes:
        spec: the planned spec, with the env's actual render settings.
        num_envs: rows of the env.
        processes: number of the simulator process of each row.

    Raises:
        EnvError: rows, time limit, layout of observations or actions, or simulator versions of the
            env differ from the plan, or it lacks a task.
    """

    def __init__(
        self,
        env: RestartingEnv,
        *,
        num_envs: int,
        spec: EnvSpec | None = None,
        instructions: str | Mapping[str, str] = OWN_INSTRUCTIONS,
    ) -> None:
        actual = env.spec
        planned = actual if spec is None else spec
        self.spec = replace(planned, render_settings=actual.render_settings)
        self.num_envs = num_envs
        self.processes = actual.processes or (0,) * num_envs
        self._env = env
        self._require_planned("num_envs", env.num_envs, num_envs)
        self._require_planned(
            "the number of entries of spec.processes", len(self.processes), num_envs
        )
        for name in PLANNED:
            self._require_planned(name, getattr(actual, name), getattr(planned, name))
        require_same_versions(planned, actual)
        missing = [task for task in planned.tasks if task not in actual.tasks]
        if missing:
            raise EnvError(
                f"env {planned.name} was planned with task {missing[0]!r}, which the constructed "
                f"env does not have: {', '.join(actual.tasks)}",
                hint="take env.spec from the spec function",
            )
        self._env_tasks = [actual.tasks.index(task) for task in planned.tasks]
        self._instructions: list[str] | None = None
        self._allowed_instructions: Collection[str] | None = None
        if not isinstance(instructions, str):
            self._instructions = [instructions[task] for task in planned.tasks]
        elif not planned.open_instructions:
            self._allowed_instructions = frozenset(planned.all_instructions)
        self._episodes: list[Episode] = [Episode(0, 0)] * num_envs
        self._steps = np.zeros(num_envs, dtype=np.int64)
        self._running = np.zeros(num_envs, dtype=bool)
        self._solved = np.zeros(num_envs, dtype=bool)
        self._observations = 0
        # (name, array, its bytes when it was returned) of the last observation, if it was checked
        self._returned: list[tuple[str, np.ndarray, bytes]] = []

    def _require_planned(self, what: str, actual: Any, planned: Any) -> None:
        if actual != planned:
            raise EnvError(
                f"env {self.spec.name}: {what} is {actual}, expected {planned}",
                hint="the env is at fault: take env.spec from the spec function",
            )

    # -- calls of a stage -------------------------------------------------------------------

    def reset(self, rows: Sequence[int], episodes: Sequence[Episode]) -> Observation:
        """Start episodes in some rows, and return the observation of all rows.

        Args:
            rows: the rows to reset.
            episodes: an episode for each row of the env; those of other rows are ignored.

        Raises:
            EnvError: the env returns invalid data. All methods that return data raise it.
        """
        mask = np.zeros(self.num_envs, dtype=bool)
        mask[list(rows)] = True
        env_episodes = [self._env_episode(episode) for episode in episodes]
        result = self._env.reset(options={"reset_mask": mask, "episodes": env_episodes})
        for row in rows:
            self._episodes[row] = episodes[row]
        self._steps[mask] = 0
        self._solved[mask] = False
        self._running[mask] = True
        if isinstance(result, (tuple, list)) and len(result) == 2:
            observation = result[0]
            fault = observation_fault(
                self.spec, self.num_envs, observation, self._running, self._allowed_instructions
            )
        else:
            fault = Fault(
                "the result of reset",
                describe(result),
                "(observation, infos)",
                "see rlcore.contracts.protocols.Env",
            )
        if fault is not None:
            raise self._chunk_error(fault, self._running)
        self._require_copies(observation)
        return self._substitute_instructions(observation)

    def chunk_step(self, actions: np.ndarray) -> ChunkResult:
        """Step all rows by one chunk: actions float32 `[B, C, A]`.

        Raises:
            WorkerError: the actions are not finite.
            EnvError: the env returns invalid data, exceeds its time limit or writes to an
                observation that it returned earlier.
        """
        actions = check_actions(self.spec, self.num_envs, actions)
        running = self._running
        length = actions.shape[1]
        result = self._env.chunk_step(actions)
        fault = chunk_fault(
            self.spec,
            self.num_envs,
            length,
            result,
            running,
            self._solved,
            self._allowed_instructions,
        )
        if fault is not None:
            raise self._chunk_error(fault, running, result)
        result = as_contract_types(result)
        self._steps += result.valid.sum(axis=1)
        self._solved = result.success.copy()
        self._running = running & ~(result.terminated | result.truncated).any(axis=1)
        self._require_time_limit()
        self._require_copies(result.observation)
        return replace(result, observation=self._substitute_instructions(result.observation))

    def _require_time_limit(self) -> None:
        """Raise EnvError if an episode exceeds its time limit: the run might never end."""
        limit = self.spec.max_episode_steps
        for row in np.flatnonzero(self._running & (self._steps > limit)):
            raise EnvError(
                f"env {self.spec.name} does not end {self._address(self._episodes[row])}: "
                f"{self._steps[row]} steps, max_episode_steps is {limit}",
                hint="the env is at fault: it must set truncated at the last step of the limit; "
                "rlcore check env NAME finds more such mistakes",
            )

    def _require_copies(self, observation: Observation) -> None:
        """Raise EnvError if the env has written to the observation that it returned before.

        A rollout keeps observations while the env continues, so the env must not reuse its buffers.
        Only the first :data:`CHECKED_OBSERVATIONS` observations are checked, because each check
        copies one.
        """
        for name, array, before in self._returned:
            if array.tobytes() != before:
                raise EnvError(
                    f"env {self.spec.name} wrote to {name} after it had returned it",
                    hint="the env is at fault: it must return copies of its buffers",
                )
        self._observations += 1
        self._returned = []
        if self._observations <= CHECKED_OBSERVATIONS:
            arrays = {**observation["cameras"], "states": observation["states"]}
            self._returned = [(name, array, array.tobytes()) for name, array in arrays.items()]

    def demonstrate(self, episodes: Sequence[Episode], **settings: Any) -> Iterator[Demonstration]:
        """Yield an expert episode per address, with the run's task numbers and instructions."""
        run_episodes = {self._env_episode(episode): episode for episode in episodes}
        for demonstration in self._env.demonstrate(list(run_episodes), **settings):
            fault = demonstration_fault(self.spec, demonstration, self._allowed_instructions)
            episode = run_episodes[demonstration.episode]
            text = demonstration.instruction
            if fault is not None:
                where = "" if fault.step is None else f", step {fault.step}"
                raise self._error(fault, f"the expert's {self._address(episode)}{where}")
            if self._instructions is not None:
                text = self._instructions[episode.task]
            success = bool(demonstration.success == 1)
            yield replace(demonstration, episode=episode, instruction=text, success=success)

    def record(self, rows: Sequence[int]) -> None:
        """Film only these rows from now on."""
        self._env.record(rows)

    def recorded(self) -> dict[int, list[np.ndarray]]:
        """Return the frames since the last call, by row."""
        films = self._env.recorded()
        fault = films_fault(self.spec, self.num_envs, films)
        if fault is not None:
            row = fault.row
            where = "in recorded" if row is None else self._address(self._episodes[row])
            raise self._error(fault, where)
        return films

    def suspend(self) -> None:
        """Suspend the env; only if `spec.suspends`."""
        self._env.suspend()

    def resume(self) -> None:
        """Resume the env; only if `spec.suspends`."""
        self._env.resume()

    def close(self) -> None:
        """Close the env."""
        self._env.close()

    @property
    def incidents(self) -> list[str]:
        """Messages of recovered failures, see :class:`RestartingEnv`."""
        return self._env.incidents

    # -- tasks and instructions -------------------------------------------------------------

    def _env_episode(self, episode: Episode) -> Episode:
        """Return the episode with its task index in the env's numbering, not in the run's."""
        return episode._replace(task=self._env_tasks[episode.task])

    def _substitute_instructions(self, observation: Observation) -> Observation:
        """Return the observation with the run's instructions in place of the env's."""
        if self._instructions is None:
            return observation
        chosen = [self._instructions[episode.task] for episode in self._episodes]
        return {**observation, "task_descriptions": chosen}

    # -- errors -----------------------------------------------------------------------------

    def _chunk_error(
        self, fault: Fault, running: np.ndarray, result: ChunkResult | None = None
    ) -> EnvError:
        """Return the error for a fault in what the env returned, with its task, trial and step.

        A fault that concerns no row in particular is reported for the first running row.

        Args:
            running: bool `[B]`: rows whose episode was running before the call.
            result: the chunk that was returned, if one was.
        """
        row = int(running.argmax()) if fault.row is None else fault.row
        step = int(self._steps[row])
        if fault.step is not None:
            step += fault.step + 1
        elif result is not None and fault.row is not None:  # not a fault of types or shapes
            step += int(result.valid[row].sum())
        return self._error(fault, f"{self._address(self._episodes[row])}, step {step}")

    def _address(self, episode: Episode) -> str:
        return f"task {self.spec.tasks[episode.task]!r}, trial {episode.trial}"

    def _error(self, fault: Fault, where: str) -> EnvError:
        return EnvError(
            f"env {self.spec.name} returned invalid data, {where}: {fault}",
            hint=f"the env is at fault, not a training setting: {fault.hint}; "
            "rlcore check env NAME finds more such mistakes",
        )
