"""Implement rlcore's Env over simulators on the CPU.

Observations are in memory shared with the simulator processes; only commands, rewards, ends and
instructions go over pipes. Importing this loads no simulator.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rlcore.contracts.errors import ConfigError, UserError, WorkerError
from rlcore.contracts.protocols import ChunkResult, Demonstration, Observation
from rlcore.contracts.specs import EnvSpec, Episode
from rlcore.validation.env import checked_actions
from rlcore_simulation import interpreters, messages
from rlcore_simulation.block import ObservationBlock
from rlcore_simulation.checks import checked_episode, counted_episodes
from rlcore_simulation.fleet import SimulatorFleet, Simulators
from rlcore_simulation.settings import SimulatedEnvConfig
from rlcore_simulation.simulator import SimulatorSource


class SimulatedEnv:
    """A vector env of CPU simulators (see :class:`rlcore.contracts.protocols.Env`).

    A terminated row keeps the frame from before its last chunk, since nobody acts on its end; a
    truncated one is rendered unless `render_final` is false. Videos show the first camera, in full
    detail.

    Args:
        spec: what the env offers.
        source: where a process gets its simulators.
        config: settings, passed to `source.target`.
        num_envs: rows, B.
        first_slot: number of this env's first row among all workers; it only picks the episodes
            of a reset that names none.
        num_processes: simulator processes; 0 simulates in this process.

    Attributes:
        render_final: whether to render truncated rows; may be set while no chunk is running.

    Raises:
        AssetError: it is too late to set the simulator's environment variables in this process; or
            the interpreter of the simulators can't be used.
        ConfigError: simulators of another interpreter can't run in this process.
    """

    def __init__(
        self,
        spec: EnvSpec,
        source: SimulatorSource,
        config: SimulatedEnvConfig,
        *,
        num_envs: int,
        first_slot: int,
        num_processes: int,
    ) -> None:
        if config.python is not None:
            if not num_processes:
                raise ConfigError(f"num_processes {interpreters.without_processes(config.python)}")
            interpreters.look(config.python)
        self.spec = spec
        self.num_envs = num_envs
        self.render_final = config.render_final
        self._config = config
        self._first_slot = first_slot
        self._sentences = [""] * num_envs
        self._success = np.zeros(num_envs, dtype=bool)
        self._playing: list[Simulators] = []
        self._demonstrating = False
        self._closed = False
        with contextlib.ExitStack() as undo:  # if this fails, nothing is left behind
            self._block = ObservationBlock(num_envs, spec)
            undo.callback(self._block.close)
            whole = messages.Hosting(spec, source, config, range(num_envs), num_envs)
            self._fleet = SimulatorFleet(whole, num_processes, self._block)
            undo.callback(self._fleet.close)
            self.spec = replace(spec, hosts=self._fleet.hosts)
            self._fleet.start()
            undo.pop_all()

    # -- gymnasium's vocabulary -------------------------------------------------------------

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start episodes: `options["episodes"]` where `options["reset_mask"]` (see the
        protocol). Without episodes, row by row the next task, and trials counted from `seed`."""
        options = options or {}
        episodes = options["episodes"] if "episodes" in options else self._counted(seed or 0)
        mask = np.asarray(options["reset_mask"]) if "reset_mask" in options else None
        rows = range(self.num_envs) if mask is None else np.flatnonzero(mask).tolist()
        wanted = {row: checked_episode(self.spec, episodes[row]) for row in rows}
        self._require_ready()
        asked = self._fleet.send(
            lambda hosted: messages.Reset({row: e for row, e in wanted.items() if row in hosted}),
            wanted,
        )
        for started in self._fleet.collect(messages.Started, asked):
            for row, sentence in started.sentences.items():
                self._sentences[row] = sentence
                self._success[row] = False
        return self._observation(), {}

    def step(
        self, actions: np.ndarray
    ) -> tuple[Observation, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """One step of all rows that have not ended: actions float32 `[B, A]` -> observation,
        rewards, terminated, truncated `[B]` and `{"success", "valid"}` with the infos. No
        autoreset; every end is rendered, so the observation of an episode that ended is its final
        one."""
        self._play(np.asarray(actions)[:, None], render_terminated=True, render_final=True)
        result = self.chunk_step_wait()
        infos = {**result.infos, "success": result.success, "valid": result.valid[:, 0]}
        ends = result.terminated[:, 0], result.truncated[:, 0]
        return result.observation, result.rewards[:, 0], *ends, infos

    # -- chunks -----------------------------------------------------------------------------

    def chunk_step(self, actions: np.ndarray) -> ChunkResult:
        """Play one chunk: actions float32 `[B, C, A]` (see the protocol). `infos` holds the
        simulators' diagnostics: float32 `[B]`, each row's last value in its episode, nan if it
        has none."""
        self.chunk_step_async(actions)
        return self.chunk_step_wait()

    def chunk_step_async(self, actions: np.ndarray) -> None:
        """Start a chunk and return; :meth:`chunk_step_wait` must be the next call."""
        self._play(actions, render_terminated=False, render_final=self.render_final)

    def chunk_step_wait(self) -> ChunkResult:
        """The result of the running chunk."""
        if not self._playing:
            raise RuntimeError("chunk_step_wait without chunk_step_async")
        asked, self._playing = self._playing, []
        parts = self._fleet.collect(messages.Played, asked)
        self._success = np.concatenate([part.success for part in parts])
        return ChunkResult(
            observation=self._observation(),
            rewards=np.concatenate([part.rewards for part in parts]),
            terminated=np.concatenate([part.terminated for part in parts]),
            truncated=np.concatenate([part.truncated for part in parts]),
            valid=np.concatenate([part.valid for part in parts]),
            success=self._success.copy(),
            infos=_by_name([infos for part in parts for infos in part.infos]),
        )

    def _play(self, actions: np.ndarray, *, render_terminated: bool, render_final: bool) -> None:
        actions = checked_actions(self.spec, self.num_envs, actions)
        self._require_ready()
        self._playing = self._fleet.send(
            lambda hosted: messages.Play(
                actions[hosted.start : hosted.stop], render_terminated, render_final
            )
        )

    # -- demonstrations and videos ----------------------------------------------------------

    def demonstrate(
        self,
        episodes: Sequence[Episode],
        *,
        action_noise: float,
        speed: float,
        stride: int,
        seed: int,
        max_steps: int | None = None,
    ) -> Iterator[Demonstration]:
        """Expert episodes (see the protocol), in parallel over the processes, in the order in
        which they end. The rows keep their episodes. Once the first one is requested, the env can
        do nothing else until the iterator is exhausted or closed."""
        if not self.spec.has_expert:
            raise UserError(f"{self.spec.name} has no expert for these tasks")
        limit = self.spec.max_episode_steps if max_steps is None else max_steps
        if not 0.0 < speed <= 1.0 or min(stride, limit) < 1 or action_noise < 0.0:
            raise ConfigError(
                "demonstrations need speed in (0, 1], stride and max_steps >= 1 and "
                f"action_noise >= 0, got {speed}, {stride}, {limit} and {action_noise}"
            )
        self._require_ready()
        return self._demonstrations(
            deque(
                messages.Demonstrate(
                    checked_episode(self.spec, episode), action_noise, speed, stride, seed, limit
                )
                for episode in episodes
            )
        )

    def _demonstrations(self, wishes: deque[messages.Demonstrate]) -> Iterator[Demonstration]:
        self._require_ready()  # again: the iterator may be started at any time
        self._demonstrating = True
        try:
            yield from self._fleet.demonstrate(wishes)
        finally:
            self._demonstrating = False

    def record(self, rows: Sequence[int]) -> None:
        """Keep every frame of these rows from now on (none: stop), for videos."""
        command = messages.Record(tuple(int(row) for row in rows))
        self._require_ready()
        self._fleet.collect(type(None), self._fleet.send(lambda _: command))

    def recorded(self) -> dict[int, list[np.ndarray]]:
        """Frames kept since the last call, `{row: [uint8 [H, W, 3], ...]}`; clears them. Without
        a camera there are none."""
        self._require_ready()
        frames: dict[int, list[np.ndarray]] = {}
        for taken in self._fleet.collect(dict, self._fleet.send(lambda _: messages.TakeFrames())):
            frames |= taken
        return frames

    # -- the rest ---------------------------------------------------------------------------

    def close(self) -> None:
        """End the simulator processes and free the shared memory; safe to call twice."""
        self._playing, self._closed = [], True
        self._fleet.close()
        self._block.close()

    @property
    def process_ids(self) -> list[int]:
        """Ids of the simulator processes that run."""
        return self._fleet.process_ids

    def _counted(self, seed: int) -> list[Episode]:
        slots = range(self._first_slot, self._first_slot + self.num_envs)
        return counted_episodes(self.spec, self._config.split, slots, seed=seed)

    def _require_ready(self) -> None:
        if self._closed:
            raise WorkerError(f"this env of {self.spec.name} is closed")
        if self._playing:
            raise RuntimeError("a chunk is still running: call chunk_step_wait first")
        if self._demonstrating:
            raise RuntimeError(
                "demonstrations are still running: take the rest, or close their iterator first"
            )

    def _observation(self) -> Observation:
        """A copy: the processes go on writing into the block."""
        return {
            "cameras": {name: frames.copy() for name, frames in self._block.frames.items()},
            "states": self._block.states.copy(),
            "task_descriptions": list(self._sentences),
            "elapsed": self._block.elapsed.copy(),
        }


def env_maker(
    spec: Callable[[Any], EnvSpec], source: SimulatorSource
) -> Callable[..., SimulatedEnv]:
    """The `target` of an env's component: it makes the env of a worker.

    Args:
        spec: the component's spec function.
        source: where a process gets its simulators.
    """

    def make(
        config: Any, *, num_envs: int, rank: int, world_size: int, num_processes: int
    ) -> SimulatedEnv:
        rows = {"num_envs": num_envs, "first_slot": rank * num_envs}
        return SimulatedEnv(spec(config), source, config, **rows, num_processes=num_processes)

    return make


def _by_name(rows: Sequence[Mapping[str, float]]) -> dict[str, np.ndarray]:
    """`{name: float32 [B]}` of the rows' values, nan if a row has none."""
    names = sorted({name for row in rows for name in row})
    return {
        name: np.array([row.get(name, np.nan) for row in rows], dtype=np.float32) for name in names
    }
