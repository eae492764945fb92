"""Suspend and resume simulators that hold accelerator memory, e.g. because they render there.

To suspend means to end the simulator processes. To resume means to start new ones and to replay the
running episodes from their starts, because equal starts and actions lead to the same state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rlcore.contracts.protocols import ChunkResult, Observation
from rlcore.contracts.specs import Episode
from rlcore_simulation.env import SimulatedEnv


class SuspendingEnv(SimulatedEnv):
    """:class:`SimulatedEnv` that implements :class:`rlcore.contracts.protocols.SuspendableEnv`.

    It requires a simulator that is bitwise reproducible (`spec.deterministic`).
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._since: list[dict[int, Episode] | np.ndarray] = []
        """Replay log: starts by row, and chunks (actions `[B, C, A]`), in their order."""
        self._running = np.zeros(self.num_envs, dtype=bool)
        self._filmed: Sequence[int] = ()
        self._frames: dict[int, list[np.ndarray]] = {}
        self._suspended = False

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """See :meth:`SimulatedEnv.reset`."""
        options = dict(options or {})
        episodes = options.setdefault("episodes", self._counted(seed or 0))
        mask = np.asarray(options.get("reset_mask", [True] * self.num_envs), dtype=bool)
        answer = super().reset(options=options)
        if mask.all():
            self._since.clear()
        self._since.append({int(row): episodes[row] for row in np.flatnonzero(mask)})
        self._running |= mask
        return answer

    def chunk_step_wait(self) -> ChunkResult:
        """See :meth:`SimulatedEnv.chunk_step_wait`."""
        before = self._success
        result = super().chunk_step_wait()
        # processes started by resume() do not know the success of episodes that ended before
        self._success = np.where(self._running, self._success, before)
        result = replace(result, success=self._success.copy())
        self._running &= ~(result.terminated | result.truncated).any(axis=1)
        return result

    def _play(self, actions: np.ndarray, *, render_terminated: bool, render_final: bool) -> None:
        super()._play(actions, render_terminated=render_terminated, render_final=render_final)
        self._since.append(np.array(actions, dtype=np.float32))

    def record(self, rows: Sequence[int]) -> None:
        """See :meth:`SimulatedEnv.record`."""
        super().record(rows)
        self._filmed = tuple(rows)

    def recorded(self) -> dict[int, list[np.ndarray]]:
        """See :meth:`SimulatedEnv.recorded`."""
        early = self._frames
        self._frames = {}
        late = super().recorded()
        return {row: early.get(row, []) + late.get(row, []) for row in {**early, **late}}

    # -- suspension ---------------------------------------------------------------------------

    def suspend(self) -> None:
        """End the simulator processes; safe to call twice."""
        if self._suspended:
            return
        self._require_ready()
        if self._filmed:
            self._frames = self.recorded()
        self._fleet.close()
        self._suspended = True

    def resume(self) -> None:
        """Start the processes again, and replay the running episodes; safe to call twice."""
        if not self._suspended:
            return
        self._fleet.start()
        self._suspended = False
        self._bring_back()
        if self._filmed:
            super().record(self._filmed)

    def _bring_back(self) -> None:
        since = self._since
        last_starts = {
            row: number  # of its last start
            for number, event in enumerate(since)
            if isinstance(event, dict)
            for row in event
            if self._running[row]
        }
        success = self._success
        self._since = []
        begun = False
        for number, event in enumerate(since):
            if isinstance(event, dict):
                # only a row's last start is replayed: it makes the earlier ones irrelevant
                rows = [row for row in event if last_starts.get(row) == number]
                if rows:
                    episodes = [event.get(row) for row in range(self.num_envs)]
                    mask = np.isin(np.arange(self.num_envs), rows)
                    self.reset(options={"reset_mask": mask, "episodes": episodes})
                    begun = True
            elif begun:
                self.chunk_step(event)
        self._success = success
