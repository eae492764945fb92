"""Play a queue of columns on one vector env."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite

import numpy as np

from rlcore.contracts.episodes import EpisodeOutcome, Footage
from rlcore.contracts.protocols import ChunkResult, take_rows
from rlcore.contracts.specs import Episode
from rlcore.rollout.messages import ChunkOutcome, EnvMessage, InteractJob, WaitingRow
from rlcore.rollout.schedule import Column
from rlcore.utils.spans import OFF, Spans
from rlcore.workers.checked_env import CheckedEnv
from rlcore.workers.column_queue import ColumnQueue


@dataclass
class _Row:
    """State of a row of the vector env.

    Attributes:
        column: the column that the row plays.
        chunk: chunks of the column so far.
        episode_number: index of the episode in the column.
        decision: decisions in the episode so far.
        steps: env steps in the episode so far.
        reward: sum of the episode's rewards so far.
    """

    column: Column
    chunk: int = 0
    episode_number: int = 0
    decision: int = 0
    steps: int = 0
    reward: float = 0.0

    @property
    def episode(self) -> Episode:
        return self.column.episodes[self.episode_number]


def _block(rows: int, part: int, parts: int) -> range:
    """Return the rows of a part; the sizes of parts differ by one row at most."""
    return range(rows * part // parts, rows * (part + 1) // parts)


class StagePlayer:
    """Player of a list of columns on a vector env, with one message per chunk and part.

    A row takes the next column of the :class:`ColumnQueue` when its own ends, so no row idles while
    columns are left, and each column is played exactly once. Rows are split into `job.parts`
    blocks. Messages of a part carry the rows of its block, and end when none of them has a column.

    Args:
        env: the vector env.
        columns: the columns to play.
        job: settings of the job; its `columns` are those of all stages.
        spans: recorder of the worker.
        row: row of this player's spans.

    Attributes:
        env_steps: env steps so far, over all rows.
        seconds: wall seconds so far in "env_reset" and "env_chunk".
        videos: footage of the filmed columns, by column number.
    """

    def __init__(
        self,
        env: CheckedEnv,
        columns: tuple[Column, ...],
        job: InteractJob,
        spans: Spans = OFF,
        row: str = "",
    ) -> None:
        self._env = env
        self._job = job
        self._spans = spans
        self._row = row
        self._queue = ColumnQueue(columns, env.processes)
        self._rows: list[_Row | None] = [None] * env.num_envs
        self._waiting: list[int] = []
        self._open_parts = {
            part: _block(env.num_envs, part, job.parts) for part in range(job.parts)
        }
        self._sequence = 0
        self.env_steps = 0
        self.seconds = {"env_reset": 0.0, "env_chunk": 0.0}
        self.videos: dict[int, Footage] = {}

    def start(self) -> dict[int, EnvMessage]:
        """Assign a column to every row, reset the rows and return a message for each part.

        Frames of an earlier player of the same env, which may have been interrupted, are dropped.
        """
        self._stop_recording()
        fresh = [row for row in range(self._env.num_envs) if self._next_column(row)]
        return self._messages({}, {}, fresh, None)

    def advance(self, actions: np.ndarray) -> dict[int, EnvMessage]:
        """Play one chunk, and return a message for each part that acted.

        Args:
            actions: float32 `[R, C, A]` for the rows of the last messages, in the order of parts.
        """
        acting = self._waiting
        padded = np.zeros((self._env.num_envs, *actions.shape[1:]), dtype=np.float32)
        padded[acting] = actions
        with self._measure("env_chunk"):
            result = self._env.chunk_step(padded)
        self._store_frames(result)
        outcomes = {
            part: self._outcome([row for row in acting if row in block], result)
            for part, block in self._open_parts.items()
        }
        finished: dict[int, EpisodeOutcome] = {}
        fresh = [row for row in acting if self._advance_row(row, result, finished)]
        return self._messages(outcomes, finished, fresh, result)

    @contextmanager
    def _measure(self, phase: str) -> Iterator[None]:
        """Add the block's time to that of a phase, and record it."""
        begin = time.perf_counter()
        with self._spans.measure(self._row, phase):
            yield
        self.seconds[phase] += time.perf_counter() - begin

    # -- bookkeeping ------------------------------------------------------------------------

    def _advance_row(
        self, row: int, result: ChunkResult, finished: dict[int, EpisodeOutcome]
    ) -> bool:
        """Add a chunk to a row's state; return whether the row needs a reset for a new episode.

        Args:
            row: the row.
            result: the chunk of all rows.
            finished: outcomes by row; the outcome of an episode that ended, or was cut off by the
                end of its column, is added.
        """
        state = self._rows[row]
        assert state is not None
        steps = int(result.valid[row].sum())
        self.env_steps += steps
        state.steps += steps
        state.reward += float(result.rewards[row].sum(dtype=np.float64))
        state.chunk += 1
        state.decision += 1
        ended = bool((result.terminated[row] | result.truncated[row]).any())
        full = self._job.chunks_per_column is not None and (
            state.chunk >= self._job.chunks_per_column
        )
        if ended or full:
            measured = {name: float(values[row]) for name, values in result.infos.items()}
            infos = {name: value for name, value in measured.items() if isfinite(value)}
            finished[row] = EpisodeOutcome(
                state.episode, bool(result.success[row]), state.reward, state.steps, ended, infos
            )
        if full or (ended and self._job.chunks_per_column is None):
            return self._next_column(row)
        if ended:
            state.episode_number += 1
            state.decision = 0
            state.steps = 0
            state.reward = 0.0
        return ended

    def _next_column(self, row: int) -> bool:
        """Assign the next column to a row; return whether there was one."""
        column = self._queue.take(row)
        self._rows[row] = None if column is None else _Row(column)
        return self._rows[row] is not None

    def _outcome(self, acting: list[int], result: ChunkResult) -> ChunkOutcome:
        """Return the results of the rows that acted, with observations to bootstrap from."""
        outcome = ChunkOutcome(
            columns=[self._rows[row].column.number for row in acting],  # type: ignore[union-attr]
            rewards=result.rewards[acting],
            valid=result.valid[acting],
            terminated=result.terminated[acting],
            truncated=result.truncated[acting],
            success=result.success[acting],
        )
        if self._job.bootstrap:
            indices = [i for i, row in enumerate(acting) if self._needs_value(row, result)]
            if indices:
                outcome.bootstrap_rows = indices
                outcome.bootstrap_observation = take_rows(
                    result.observation, [acting[index] for index in indices]
                )
        return outcome

    def _needs_value(self, row: int, result: ChunkResult) -> bool:
        """Return whether the value after the chunk is needed: the row's episode was truncated, or
        its column ends before the episode does."""
        if result.truncated[row].any():
            return True
        state = self._rows[row]
        assert state is not None
        last = self._job.chunks_per_column == state.chunk + 1
        return last and not bool(result.terminated[row].any())

    def _messages(
        self,
        outcomes: Mapping[int, ChunkOutcome],
        finished: Mapping[int, EpisodeOutcome],
        fresh: list[int],
        result: ChunkResult | None,
    ) -> dict[int, EnvMessage]:
        """Reset the rows with new episodes, and return a message for each open part.

        Args:
            outcomes: outcomes of the last chunk, by part.
            finished: outcomes of the episodes that finished, by row.
            fresh: rows to reset.
            result: the last chunk; None before the first.
        """
        observation = result.observation if result is not None else None
        if fresh:
            with self._measure("env_reset"):
                if self._job.record:
                    rows = range(len(self._rows))
                    self._env.record([row for row in rows if self._is_filmed(row)])
                idle = Episode(0, 0)
                episodes = [state.episode if state is not None else idle for state in self._rows]
                observation = self._env.reset(fresh, episodes)
        self._waiting = [row for row, state in enumerate(self._rows) if state is not None]
        if self._job.record and not self._waiting:
            self._stop_recording()
        messages = {}
        for part, block in list(self._open_parts.items()):
            states = {row: state for row, state in enumerate(self._rows) if state and row in block}
            part_observation = None
            if observation is not None and states:
                part_observation = take_rows(observation, list(states))
            messages[part] = EnvMessage(
                sequence=self._sequence,
                outcome=outcomes.get(part),
                rows=[
                    WaitingRow(
                        state.column.number, state.episode, state.episode_number, state.decision
                    )
                    for state in states.values()
                ],
                observation=part_observation,
                finished=[outcome for row, outcome in finished.items() if row in block],
            )
            if part_observation is None:
                del self._open_parts[part]
        self._sequence += 1
        return messages

    # -- videos -----------------------------------------------------------------------------

    def _is_filmed(self, row: int) -> bool:
        """Return whether a row plays the first episode of a column that is to be filmed."""
        state = self._rows[row]
        return (
            state is not None
            and state.column.number in self._job.record
            and state.episode_number == 0
        )

    def _stop_recording(self) -> None:
        """Stop filming all rows, and drop frames that were not collected."""
        self._env.record([])
        self._env.recorded()

    def _store_frames(self, result: ChunkResult) -> None:
        """Add the chunk's frames to the videos.

        Must be called before :meth:`_advance_row`: it needs the rows' states before the chunk.
        """
        if not self._job.record:
            return
        for row, frames in self._env.recorded().items():
            state = self._rows[row]
            assert state is not None  # only rows with a column are filmed
            instruction = result.observation["task_descriptions"][row]
            filmed = Footage(state.episode, instruction=instruction)
            footage = self.videos.setdefault(state.column.number, filmed)
            footage.add_chunk(
                frames,
                step=state.steps,
                total=state.reward,
                rewards=result.rewards[row][result.valid[row]],
                success=bool(result.success[row]),
            )
