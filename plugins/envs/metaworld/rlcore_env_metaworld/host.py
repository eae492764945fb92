"""The rows of one process: carries out commands on them, one row after another.

It runs inside a simulator process, or in the caller's own process where that is wanted (pdb).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from rlcore.protocols import Demonstration
from rlcore_env_metaworld.block import ObservationBlock
from rlcore_env_metaworld.expert import play_expert
from rlcore_env_metaworld.messages import (
    Command,
    Demonstrate,
    Play,
    Played,
    Record,
    Reply,
    Reset,
    TakeFrames,
)
from rlcore_env_metaworld.pool import SimulatorPool
from rlcore_env_metaworld.render import View
from rlcore_env_metaworld.row import EpisodeRules, Row
from rlcore_env_metaworld.settings import MetaWorldConfig
from rlcore_env_metaworld.spec import env_spec


class RowHost:
    """Rows, the simulators they use, and the commands on them.

    Args:
        config: the env's settings.
        rows: numbers of the rows hosted here, in the whole vector env.
        block: where observations go.
    """

    def __init__(self, config: MetaWorldConfig, rows: range, block: ObservationBlock) -> None:
        self._spec = env_spec(config)
        self._view = View(config.camera, config.image_size, config.fast_render)
        self._pool = SimulatorPool(self._view, config.settle_steps, config.cached_simulators)
        self._block = block
        self._rules = EpisodeRules.of(config)
        self._rows = {number: Row(self._rules) for number in rows}

    def carry_out(self, command: Command) -> Reply:
        """Carry out one command and return its answer (see :mod:`.messages`)."""
        match command:
            case Reset():
                self._reset(command)
            case Play():
                return self._play(command)
            case Demonstrate():
                return self._demonstrate(command)
            case Record():
                self._record(command)
            case TakeFrames():
                return self._take_frames()
        return None

    def close(self) -> None:
        """Free the renderers."""
        self._pool.close()

    # -- commands ---------------------------------------------------------------------------

    def _reset(self, command: Reset) -> None:
        # All simulators are given back first, so that rows which swap tasks need no new ones.
        for number in command.episodes:
            row = self._rows[number]
            if row.simulator is not None:
                self._pool.give_back(row.simulator)
                row.simulator = None
        for number, episode in command.episodes.items():
            with self._busy(number):
                row = self._rows[number]
                row.begin(self._pool.take(self._spec.tasks[episode.task]), episode)
                self._observe(number, draw=True)
                if row.recording:
                    row.frames.append(self._block.frames[number].copy())

    def _play(self, command: Play) -> Played:
        rows, chunk = command.actions.shape[:2]
        played = Played(
            rewards=np.zeros((rows, chunk), dtype=np.float32),
            terminated=np.zeros((rows, chunk), dtype=bool),
            truncated=np.zeros((rows, chunk), dtype=bool),
            valid=np.zeros((rows, chunk), dtype=bool),
            success=np.zeros(rows, dtype=bool),
        )
        for place, (number, row) in enumerate(self._rows.items()):
            if not row.over:
                with self._busy(number):
                    self._play_row(place, number, command, played)
            played.success[place] = row.success
        return played

    def _play_row(self, place: int, number: int, command: Play, played: Played) -> None:
        row = self._rows[number]
        terminated = truncated = False
        for step, action in enumerate(command.actions[place]):
            reward, terminated, truncated = row.step(action)
            played.rewards[place, step] = reward
            played.terminated[place, step] = terminated
            played.truncated[place, step] = truncated
            played.valid[place, step] = True
            if row.recording:
                row.frames.append(self._draw(number).copy())
            if row.over:
                break
        unseen = (terminated and not command.render_terminated) or (
            truncated and not command.render_final
        )
        self._observe(number, draw=not unseen and not row.recording)

    def _demonstrate(self, command: Demonstrate) -> Demonstration:
        simulator = self._pool.take(self._spec.tasks[command.episode.task])
        try:
            return play_expert(
                simulator,
                self._pool.renderer(simulator),
                self._view,
                command,
                sentence=self._spec.descriptions[command.episode.task],
            )
        finally:
            self._pool.give_back(simulator)

    def _record(self, command: Record) -> None:
        for number, row in self._rows.items():
            row.recording = number in command.rows

    def _take_frames(self) -> dict[int, list[np.ndarray]]:
        taken: dict[int, list[np.ndarray]] = {}
        for number, row in self._rows.items():
            if row.frames:
                taken[number], row.frames = row.frames, []
        return taken

    # -- observations -----------------------------------------------------------------------

    def _observe(self, number: int, *, draw: bool) -> None:
        """Write the row's observation into the block."""
        row = self._rows[number]
        assert row.simulator is not None
        self._block.states[number] = row.simulator.states
        self._block.elapsed[number] = row.elapsed
        if draw:
            self._draw(number)

    def _draw(self, number: int) -> np.ndarray:
        """Draw the row into the block; returns its frame there, uint8 `[H, W, 3]`."""
        simulator = self._rows[number].simulator
        assert simulator is not None
        frame = self._block.frames[number]
        simulator.draw(self._pool.renderer(simulator), frame)
        return frame

    @contextmanager
    def _busy(self, number: int) -> Iterator[None]:
        """Mark the row as being worked on. The mark stays if the process dies."""
        self._block.busy[number] = 1
        yield
        self._block.busy[number] = 0
