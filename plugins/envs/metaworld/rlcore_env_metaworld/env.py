"""MetaWorld as an rlcore Env: rows spread over simulator processes.

    send a command to every process  ->  they simulate side by side  ->  collect the answers

Observations lie in memory shared with the processes; only commands, rewards and ends travel over
pipes. Knows neither MuJoCo nor MetaWorld: importing it loads no simulator.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rlcore.errors import ConfigError, WorkerError
from rlcore.protocols import ChunkResult, Demonstration, Observation
from rlcore.specs import EnvSpec, Episode
from rlcore_env_metaworld.block import ObservationBlock
from rlcore_env_metaworld.gl import choose_gl
from rlcore_env_metaworld.inprocess import InProcessSimulators
from rlcore_env_metaworld.messages import (
    Command,
    Demonstrate,
    Hosting,
    Play,
    Played,
    Record,
    Reply,
    Reset,
    TakeFrames,
)
from rlcore_env_metaworld.process import SimulatorProcess
from rlcore_env_metaworld.settings import MetaWorldConfig
from rlcore_env_metaworld.spec import env_spec

Simulators = SimulatorProcess | InProcessSimulators
# Seconds to wait for one process before looking at the next.
GLANCE = 0.01


class MetaWorldEnv:
    """A vector env of MetaWorld tasks (see :class:`rlcore.protocols.Env`).

    A terminated row holds the frame before its last chunk, since nobody acts on its end; a
    truncated one is drawn unless `render_final` is false.

    Args:
        config: settings.
        num_envs: rows, B.
        first_slot: number of this env's first row among all workers; only picks the episodes of
            a reset that names none.
        num_processes: simulator processes; 0 simulates in this process.

    Attributes:
        render_final: whether truncated rows are drawn; may be set while no chunk is under way.

    Raises:
        AssetError: no GL library; before any process starts.
        ConfigError: settings that can't be.
    """

    def __init__(
        self, config: MetaWorldConfig, *, num_envs: int, first_slot: int, num_processes: int
    ) -> None:
        self.num_envs = num_envs
        self.render_final = config.render_final
        spec = env_spec(config)
        gl = choose_gl()
        self.spec: EnvSpec = replace(
            spec, render_settings={**spec.render_settings, "gl": gl or "platform"}
        )
        self._config = config
        self._first_slot = first_slot
        self._sentences = [""] * num_envs
        self._success = np.zeros(num_envs, dtype=bool)
        self._playing = False
        self._block = ObservationBlock(num_envs, config.image_size)
        self._simulators = self._make_simulators(num_processes, gl)
        try:
            for simulators in self._simulators:
                simulators.start()
        except BaseException:
            self.close()
            raise

    # -- gymnasium's vocabulary -------------------------------------------------------------

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start episodes: `options["episodes"]` where `options["reset_mask"]` (see the
        protocol). Without episodes, row by row the next task, and trials counted from `seed`."""
        options = options or {}
        episodes = options["episodes"] if "episodes" in options else self._episodes_from(seed or 0)
        mask = np.asarray(options["reset_mask"]) if "reset_mask" in options else None
        rows = range(self.num_envs) if mask is None else np.flatnonzero(mask).tolist()
        wanted = {row: self._checked(episodes[row]) for row in rows}
        self._exchange(
            lambda simulators: Reset({r: e for r, e in wanted.items() if r in simulators.rows}),
            [s for s in self._simulators if any(row in s.rows for row in wanted)],
        )
        for row, episode in wanted.items():
            self._sentences[row] = self.spec.descriptions[episode.task]
            self._success[row] = False
        return self._observation(), {}

    def step(
        self, actions: np.ndarray
    ) -> tuple[Observation, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """One step of all rows that have not ended: actions float32 `[B, A]` -> observation,
        rewards, terminated, truncated `[B]` and `{"success", "valid"}`. No autoreset; every end
        is drawn, so the observation is the final one where an episode ended."""
        self._play(np.asarray(actions)[:, None], render_terminated=True, render_final=True)
        result = self.chunk_step_wait()
        infos = {"success": result.success, "valid": result.valid[:, 0]}
        ends = result.terminated[:, 0], result.truncated[:, 0]
        return result.observation, result.rewards[:, 0], *ends, infos

    # -- chunks -----------------------------------------------------------------------------

    def chunk_step(self, actions: np.ndarray) -> ChunkResult:
        """Play one chunk: actions float32 `[B, C, A]` (see the protocol)."""
        self.chunk_step_async(actions)
        return self.chunk_step_wait()

    def chunk_step_async(self, actions: np.ndarray) -> None:
        """Start a chunk and return; :meth:`chunk_step_wait` must be the next call."""
        self._play(actions, render_terminated=False, render_final=self.render_final)

    def chunk_step_wait(self) -> ChunkResult:
        """The result of the chunk under way."""
        if not self._playing:
            raise RuntimeError("chunk_step_wait without chunk_step_async")
        self._playing = False
        parts = [reply for reply in self._collect(self._simulators) if isinstance(reply, Played)]
        self._success = np.concatenate([part.success for part in parts])
        return ChunkResult(
            observation=self._observation(),
            rewards=np.concatenate([part.rewards for part in parts]),
            terminated=np.concatenate([part.terminated for part in parts]),
            truncated=np.concatenate([part.truncated for part in parts]),
            valid=np.concatenate([part.valid for part in parts]),
            success=self._success.copy(),
        )

    def _play(self, actions: np.ndarray, *, render_terminated: bool, render_final: bool) -> None:
        actions = np.asarray(actions, dtype=np.float32)
        if actions.ndim != 3 or actions.shape[::2] != (self.num_envs, self.spec.action_dim):
            raise ValueError(
                f"actions must be [{self.num_envs}, C, {self.spec.action_dim}], got "
                f"{list(actions.shape)}"
            )
        bad = np.flatnonzero(~np.isfinite(actions).all(axis=(1, 2)))
        if bad.size:
            raise WorkerError(
                f"actions of rows {bad.tolist()} are not finite: the policy has diverged",
                hint="look at actor/grad_norm, and lower actor.optim.lr",
            )
        self._send(
            lambda simulators: Play(
                actions[simulators.rows.start : simulators.rows.stop],
                render_terminated,
                render_final,
            ),
            self._simulators,
        )
        self._playing = True

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
        which they end. The rows keep their episodes."""
        limit = self.spec.max_episode_steps if max_steps is None else max_steps
        if not 0.0 < speed <= 1.0 or min(stride, limit) < 1 or action_noise < 0.0:
            raise ConfigError(
                "demonstrations need speed in (0, 1], stride and max_steps >= 1 and "
                f"action_noise >= 0, got {speed}, {stride}, {limit} and {action_noise}"
            )
        waiting = deque(
            Demonstrate(self._checked(episode), action_noise, speed, stride, seed, limit)
            for episode in episodes
        )
        self._require_no_chunk()
        return self._demonstrate(waiting)

    def _demonstrate(self, waiting: deque[Demonstrate]) -> Iterator[Demonstration]:
        idle, busy = deque(self._simulators), deque[Simulators]()
        try:
            while waiting or busy:
                while waiting and idle:
                    idle[0].send(waiting.popleft())
                    busy.append(idle.popleft())
                if busy[0].ready(GLANCE):
                    idle.append(busy.popleft())
                    reply = idle[-1].receive()
                    assert isinstance(reply, Demonstration)
                    yield reply
                else:
                    busy.rotate(-1)
        finally:
            self._collect(busy)  # of a caller that stopped early

    def record(self, rows: Sequence[int]) -> None:
        """Keep every frame of these rows from now on (none: stop), for videos."""
        command = Record(tuple(int(row) for row in rows))
        self._exchange(lambda _: command, self._simulators)

    def recorded(self) -> dict[int, list[np.ndarray]]:
        """Frames kept since the last call, `{row: [uint8 [H, W, 3], ...]}`; clears them."""
        frames: dict[int, list[np.ndarray]] = {}
        for reply in self._exchange(lambda _: TakeFrames(), self._simulators):
            assert isinstance(reply, dict)
            frames |= reply
        return frames

    # -- processes --------------------------------------------------------------------------

    def close(self) -> None:
        """End the simulator processes and free the shared memory; safe to call twice."""
        self._playing = False
        for simulators in self._simulators:
            simulators.close()
        self._block.close()

    @property
    def process_ids(self) -> list[int]:
        """Ids of the simulator processes that run."""
        processes = [s for s in self._simulators if isinstance(s, SimulatorProcess)]
        return [process.pid for process in processes if process.pid is not None]

    def _make_simulators(self, num_processes: int, gl: str | None) -> list[Simulators]:
        if num_processes == 0:
            hosting = Hosting(self._config, range(self.num_envs), self.num_envs)
            return [InProcessSimulators(hosting, self._block, gl)]
        count = min(num_processes, self.num_envs)
        bounds = [self.num_envs * number // count for number in range(count + 1)]
        return [
            SimulatorProcess(
                f"MetaWorld simulator process {number + 1} of {count}",
                Hosting(self._config, range(bounds[number], bounds[number + 1]), self.num_envs),
                self._block,
                tasks=self.spec.tasks,
                gl=gl,
            )
            for number in range(count)
        ]

    def _exchange(
        self, command: Callable[[Simulators], Command], simulators: Sequence[Simulators]
    ) -> list[Reply]:
        self._send(command, simulators)
        return self._collect(simulators)

    def _send(
        self, command: Callable[[Simulators], Command], simulators: Sequence[Simulators]
    ) -> None:
        self._require_no_chunk()
        for each in simulators:
            each.send(command(each))

    def _collect(self, simulators: Sequence[Simulators]) -> list[Reply]:
        """All answers. A failure is raised once every other process has answered, so that the
        living ones stay in step with their commands."""
        replies: list[Reply] = []
        failures: list[WorkerError] = []
        for each in simulators:
            try:
                replies.append(each.receive())
            except WorkerError as error:
                failures.append(error)
        if failures:
            raise failures[0]
        return replies

    def _require_no_chunk(self) -> None:
        if self._playing:
            raise RuntimeError("a chunk is under way: call chunk_step_wait first")

    # -- small ones -------------------------------------------------------------------------

    def _observation(self) -> Observation:
        """A copy: the processes write on into the block."""
        return {
            "cameras": {self._config.camera: self._block.frames.copy()},
            "states": self._block.states.copy(),
            "task_descriptions": list(self._sentences),
            "elapsed": self._block.elapsed.copy(),
        }

    def _episodes_from(self, seed: int) -> list[Episode]:
        tasks, trials = len(self.spec.tasks), self.spec.trials(self._config.split)
        slots = range(self._first_slot, self._first_slot + self.num_envs)
        return [
            Episode(slot % tasks, trials[(seed + slot // tasks) % len(trials)]) for slot in slots
        ]

    def _checked(self, episode: Episode) -> Episode:
        if not 0 <= episode.task < len(self.spec.tasks) or episode.trial < 0:
            raise ConfigError(
                f"episode {tuple(episode)}: task must be in [0, {len(self.spec.tasks) - 1}] and "
                "trial at least 0"
            )
        return episode


def make_env(
    config: MetaWorldConfig, *, num_envs: int, rank: int, world_size: int, num_processes: int
) -> MetaWorldEnv:
    """The env of worker `rank`: `num_envs` rows in `num_processes` processes (0: in this one)."""
    return MetaWorldEnv(
        config, num_envs=num_envs, first_slot=rank * num_envs, num_processes=num_processes
    )
