"""Wrap a plugin's env: map task numbers and instructions, validate what it returns.

    stage -> CheckedEnv -> RestartingEnv -> the plugin's env

A plugin's env need not know which of its tasks are selected, nor the policy's instructions: tasks
are matched by name, so that a number means the same on both sides. Knows no policy and no
transport.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rlcore.config.schema.env import OWN
from rlcore.contracts.errors import EnvError
from rlcore.contracts.protocols import ChunkResult, Demonstration, Observation
from rlcore.contracts.specs import EnvSpec, Episode
from rlcore.validation.env import (
    accepted,
    checked_actions,
    chunk_fault,
    demonstration_fault,
    films_fault,
    observation_fault,
)
from rlcore.validation.faults import Fault, described
from rlcore.workers.restarting_env import RestartingEnv, require_same_versions

LOOKED_AT = 3  # answers that must stay as they were handed out
PLANNED = ("max_episode_steps", "cameras", "states", "actions")  # of a spec, alike once made


class CheckedEnv:
    """The calls of :class:`rlcore.contracts.protocols.Env` that a run makes.

    Args:
        env: what plays.
        num_envs: rows it was asked for.
        spec: what the run was planned with; None: what the env says of itself.
        instructions: that of each task (`env.*.sentences`), or `own`: those of the env.

    Raises:
        EnvError: another number of rows, time limit, layout of observations or actions than
            planned, other versions of what simulates, or a task that it does not have.
    """

    def __init__(
        self,
        env: RestartingEnv,
        *,
        num_envs: int,
        spec: EnvSpec | None = None,
        instructions: str | Mapping[str, str] = OWN,
    ) -> None:
        real = env.spec
        self.spec = real if spec is None else replace(spec, render_settings=real.render_settings)
        self.num_envs = num_envs
        self.hosts = real.hosts or (0,) * num_envs
        self._env = env
        for what, found, expected in (
            ("num_envs", env.num_envs, num_envs),
            ("the number of entries of spec.hosts", len(self.hosts), num_envs),
            ("the number of action entries", real.action_dim, self.spec.action_dim),
            *((what, getattr(real, what), getattr(self.spec, what)) for what in PLANNED),
        ):
            if found != expected:
                raise EnvError(
                    f"env {self.spec.name}: {what} is {found}, expected {expected}",
                    hint="the env is at fault: take env.spec from the spec function",
                )
        require_same_versions(self.spec, real)
        missing = [task for task in self.spec.tasks if task not in real.tasks]
        if missing:
            raise EnvError(
                f"env {self.spec.name} was planned with task {missing[0]!r}, which it does not "
                f"have once it is made: {', '.join(real.tasks)}",
                hint="take env.spec from the spec function",
            )
        self._numbers = [real.tasks.index(task) for task in self.spec.tasks]
        self._instructions: list[str] | None = None
        if not isinstance(instructions, str):
            self._instructions = [instructions[task] for task in self.spec.tasks]
        closed = self._instructions is None and not self.spec.open_sentences
        self._named: Collection[str] | None = frozenset(self.spec.said) if closed else None
        self._episodes: list[Episode] = [Episode(0, 0)] * num_envs
        self._steps = np.zeros(num_envs, dtype=np.int64)
        self._running, self._solved = (np.zeros(num_envs, dtype=bool) for _ in range(2))
        self._answers = 0
        self._handed: list[tuple[str, np.ndarray, bytes]] = []  # with the answer before, and then

    # -- what a stage asks ------------------------------------------------------------------

    def reset(self, rows: Sequence[int], episodes: Sequence[Episode]) -> Observation:
        """Start episodes in these rows; `episodes` has one for each row of the env.

        Raises:
            EnvError: the env returns invalid data; all calls here may raise it.
        """
        mask = np.zeros(self.num_envs, dtype=bool)
        mask[list(rows)] = True
        asked = [self._inner(episode) for episode in episodes]
        answer = self._env.reset(options={"reset_mask": mask, "episodes": asked})
        for row in rows:
            self._episodes[row] = episodes[row]
        self._steps[mask], self._solved[mask], self._running[mask] = 0, False, True
        if not (isinstance(answer, (tuple, list)) and len(answer) == 2):
            fault = Fault("the answer to reset", described(answer), "(observation, infos)",
                          "see rlcore.contracts.protocols.Env")  # fmt: skip
            raise self._blame(fault, self._running)
        fault = observation_fault(self.spec, self.num_envs, answer[0], self._running, self._named)
        if fault is not None:
            raise self._blame(fault, self._running)
        self._require_copies(answer[0])
        return self._under_instructions(answer[0])

    def chunk_step(self, actions: np.ndarray) -> ChunkResult:
        """One chunk of all rows: actions float32 `[B, C, A]`.

        Raises:
            WorkerError: actions that are not finite.
        """
        actions = checked_actions(self.spec, self.num_envs, actions)
        running, length = self._running, actions.shape[1]
        result = self._env.chunk_step(actions)
        fault = chunk_fault(
            self.spec, self.num_envs, length, result, running, self._solved, self._named
        )
        if fault is not None:
            raise self._blame(fault, running, result)
        result = accepted(result)
        self._steps += result.valid.sum(axis=1)
        self._solved = result.success.copy()
        self._running = running & ~(result.terminated | result.truncated).any(axis=1)
        self._require_ends()
        self._require_copies(result.observation)
        return replace(result, observation=self._under_instructions(result.observation))

    def _require_ends(self) -> None:
        """An env that never ends an episode would let a run wait for ever."""
        late = np.flatnonzero(self._running & (self._steps > self.spec.max_episode_steps))
        if late.size:
            row = int(late[0])
            raise EnvError(
                f"env {self.spec.name} does not end {self._address(self._episodes[row])}: "
                f"{self._steps[row]} steps, max_episode_steps is {self.spec.max_episode_steps}",
                hint="the env is at fault: it has to set truncated in the last step it allows; "
                "rlcore check env NAME finds more such mistakes",
            )

    def _require_copies(self, observation: Observation) -> None:
        """A rollout keeps observations while the env goes on; its first answers are looked at."""
        for name, array, before in self._handed:
            if array.tobytes() != before:
                raise EnvError(
                    f"env {self.spec.name} wrote to {name} after it had handed it out",
                    hint="the env is at fault: it has to hand out copies of its buffers",
                )
        self._answers += 1
        seen = {**observation["cameras"], "states": observation["states"]}
        looked_at = seen if self._answers <= LOOKED_AT else {}
        self._handed = [(name, array, array.tobytes()) for name, array in looked_at.items()]

    def demonstrate(self, episodes: Sequence[Episode], **settings: Any) -> Iterator[Demonstration]:
        """Expert episodes of the given addresses, each once."""
        asked = {self._inner(episode): episode for episode in episodes}
        for demonstration in self._env.demonstrate(list(asked), **settings):
            fault = demonstration_fault(self.spec, demonstration, self._named)
            episode, text = asked[demonstration.episode], demonstration.task_description
            if fault is not None:
                where = "" if fault.step is None else f", step {fault.step}"
                raise self._error(fault, f"the expert's {self._address(episode)}{where}")
            if self._instructions is not None:
                text = self._instructions[episode.task]
            success = bool(demonstration.success == 1)
            yield replace(demonstration, episode=episode, task_description=text, success=success)

    def record(self, rows: Sequence[int]) -> None:
        """Which rows are filmed."""
        self._env.record(rows)

    def recorded(self) -> dict[int, list[np.ndarray]]:
        """Frames since the last call, by row."""
        films = self._env.recorded()
        fault = films_fault(self.spec, self.num_envs, films)
        if fault is not None:
            at = None if fault.row is None else self._address(self._episodes[fault.row])
            raise self._error(fault, at or "in recorded")
        return films

    def suspend(self) -> None:
        """As the env's; only for one that can be suspended."""
        self._env.suspend()

    def resume(self) -> None:
        """Likewise."""
        self._env.resume()

    def close(self) -> None:
        """Close the env."""
        self._env.close()

    @property
    def incidents(self) -> list[str]:
        """See :class:`RestartingEnv`."""
        return self._env.incidents

    # -- tasks and sentences ----------------------------------------------------------------

    def _inner(self, episode: Episode) -> Episode:
        """The episode under the env's own number of its task."""
        return episode._replace(task=self._numbers[episode.task])

    def _under_instructions(self, observation: Observation) -> Observation:
        """The observation with the run's instructions."""
        if self._instructions is None:
            return observation
        chosen = [self._instructions[episode.task] for episode in self._episodes]
        return {**observation, "task_descriptions": chosen}

    # -- blame ------------------------------------------------------------------------------

    def _blame(
        self, fault: Fault, running: np.ndarray, result: ChunkResult | None = None
    ) -> EnvError:
        """The error for a fault in an answer; if it concerns several rows, of the first that runs
        stands for all."""
        rows = np.flatnonzero(running)
        row = fault.row if fault.row is not None else int(rows[0]) if rows.size else 0
        step = int(self._steps[row])
        if fault.step is not None:
            step += fault.step + 1
        elif result is not None and fault.row is not None:  # else of types and shapes
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
