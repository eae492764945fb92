"""Provide the env under test, and the episodes and actions that checks play in it."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rlcore.contracts.protocols import ChunkResult, Demonstration, Env, Observation
from rlcore.contracts.rng import generator
from rlcore.contracts.specs import EnvSpec, Episode
from rlcore.plugins.import_target import load_target
from rlcore_testing.conformance.base import Conformance, require_equal, skip_unless

ROWS = 3
CHUNK = 4
SHORT = CHUNK + 1  # a time limit inside the second chunk
STRIDE = 3
DEMONSTRATED = 4  # episodes that the expert demonstrates
ROUNDING = 1e-5
ALL_ROWS = np.ones(ROWS, dtype=bool)


@dataclass(frozen=True)
class Play:
    """First observation of some rows, and the result of one chunk of actions."""

    start: Observation
    result: ChunkResult


class EnvSubject(Conformance):
    """Base of the checks of envs: builds envs, plays chunks and compares results.

    Attributes:
        accuracy: tolerance between equal starts, in units of the states, if
            `spec.start_exactness` is not "bitwise".
        simulator_loads: heavy packages that the simulator itself needs, e.g. ("torch",).
        memory_episodes: number of episodes over which memory must not grow; 0: not checked.
        memory_seconds: time limit in seconds, which reduces that number for slow envs.
    """

    kind = "env"
    accuracy: ClassVar[float] = 1e-3
    simulator_loads: ClassVar[Sequence[str]] = ()
    memory_episodes: ClassVar[int] = 0
    memory_seconds: ClassVar[float] = 30.0

    def make(self, config: Any, num_envs: int) -> Env:
        """Build the env as an env worker does."""
        processes = 1 if config.num_processes is None else config.num_processes
        env: Env = load_target(self.component().target)(
            config,
            num_envs=num_envs,
            rank=0,
            world_size=1,
            num_processes=min(processes, num_envs),
        )
        return env

    def solution(self) -> tuple[Episode, np.ndarray] | None:
        """Return an episode and actions, float32 `[L, A]`, whose last one solves it.

        None if no solution is known; override this for an env without an expert. If a chunk is one
        motion, a demonstration is not used, because checks cut it into other chunks.
        """
        if self.spec.has_expert and not self.spec.whole_chunks:
            for demonstration in self.demonstrations():
                if demonstration.success:
                    return demonstration.episode, demonstration.actions
        return None

    @property
    def spec(self) -> EnvSpec:
        return self.env().spec

    def env(self, num_envs: int = ROWS, *, instance: int = 0, **changes: Any) -> Env:
        """Return an env that all checks share; every check resets the rows that it uses.

        Args:
            num_envs: number of rows.
            instance: different numbers give separate envs of the same settings.
            changes: settings that differ.
        """
        config = self.config(**changes)

        def make() -> Env:
            env = self.make(config, num_envs)
            self._closing.callback(env.close)
            return env

        return self.shared((num_envs, instance, repr(config)), make)

    def episodes(self, count: int, *, first: int = 0) -> list[Episode]:
        """Return training episodes, numbered from `first`, that cycle through tasks and trials."""
        tasks = len(self.spec.tasks)
        trials = self.spec.train_trials
        return [Episode(i % tasks, trials[i % len(trials)]) for i in range(first, first + count)]

    def actions(self, rows: int, *, key: int = 0) -> np.ndarray:
        """Return one chunk of uniformly random actions, float32 `[rows, CHUNK, A]`."""
        shape = rows, CHUNK, self.spec.action_dim
        draw = generator("conformance actions", key).uniform(*self.action_range(), shape)
        return draw.astype(np.float32)

    def still(self, rows: int, steps: int) -> np.ndarray:
        """Return actions in the middle of their range, float32 `[rows, steps, A]`."""
        middle = np.mean(self.action_range(), axis=0).astype(np.float32)
        return np.tile(middle, (rows, steps, 1))

    def action_range(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the lowest and the highest action, float64 `[A]`."""
        return np.array(self.spec.action_low, float), np.array(self.spec.action_high, float)

    def play(self, env: Env, episodes: Sequence[Episode], actions: np.ndarray) -> Play:
        """Reset all rows and play one chunk; return copies, because the env may reuse arrays."""
        start = copy.deepcopy(env.reset(options={"episodes": list(episodes)})[0])
        return Play(start, copy.deepcopy(env.chunk_step(actions)))

    def demonstrations(self) -> list[Demonstration]:
        """Return the expert's demonstrations without noise; skip the check without an expert."""
        skip_unless(self.spec.has_expert, "spec.has_expert is false")
        return self.shared("expert", lambda: self.demonstrate(self.episodes(DEMONSTRATED)))

    def demonstrate(self, episodes: Sequence[Episode], **changes: Any) -> list[Demonstration]:
        """Return the expert's demonstrations of some episodes.

        Args:
            changes: arguments of the env's `demonstrate` that differ from a demonstration without
                noise, at full speed.
        """
        arguments = {"action_noise": 0.0, "speed": 1.0, "stride": self.stride, "seed": 0, **changes}
        return list(self.env().demonstrate(episodes, **arguments))

    @property
    def stride(self) -> int:
        """Steps between frames of demonstrations; the chunk's length if a chunk is one motion."""
        return CHUNK if self.spec.whole_chunks else STRIDE

    def solved(self) -> tuple[Episode, np.ndarray]:
        """Return the solution; skip the check if none is known or episodes do not repeat."""
        self.skip_unless_deterministic()
        solution = self.solution()
        skip_unless(solution is not None, "no solution is known: override solution() to give one")
        assert solution is not None
        return solution

    def to_the_end(self) -> tuple[list[Episode], np.ndarray]:
        """Return an episode for each row, and actions `[ROWS, K CHUNK, A]`.

        If a solution is known, row 0 is solved, and its last chunk has further actions after that.
        """
        episodes = self.episodes(ROWS)
        solution = self.solution()
        if solution is None:
            return episodes, self.actions(ROWS)
        episodes[0], solving = solution
        chunks = len(solving) // CHUNK + 1
        actions = np.concatenate([self.actions(ROWS, key=k) for k in range(chunks)], axis=1)
        actions[0, : len(solving)] = solving
        return episodes, actions

    @property
    def tolerance(self) -> float:
        """Tolerance between equal starts, in units of the states; 0: bitwise."""
        return 0.0 if self.spec.start_exactness == "bitwise" else self.accuracy

    def skip_unless_deterministic(self) -> None:
        """Skip the check unless the spec promises that equal starts and actions repeat."""
        skip_unless(self.spec.deterministic, "spec.deterministic is false")

    def require_close(self, label: str, got: Any, expected: Any, hint: str) -> None:
        """Require equality within :attr:`tolerance`; pixels are compared only if it is bitwise."""
        if not self.tolerance or not label.startswith("camera"):
            require_equal(label, got, expected, hint, atol=self.tolerance)

    def require_same(
        self, label: str, got: Mapping[str, Any], expected: Mapping[str, Any], hint: str
    ) -> None:
        """Require each expected array to be close to that of the same name, which must exist."""
        for name, array in expected.items():
            self.require_close(f"{name} {label}", got.get(name, np.nan), array, hint)


def extended(actions: np.ndarray, length: int) -> np.ndarray:
    """Cut actions `[B, L, A]` to `length` steps, or extend them by repeating the last action."""
    return actions[:, np.minimum(np.arange(length), actions.shape[1] - 1)]


def arrays_of(value: Observation | ChunkResult, row: int | None = None) -> dict[str, Any]:
    """Return the arrays of an observation or result by name, or the entries of one row.

    Instructions become an array of strings. Pixels come last, because a difference in numbers makes
    a more useful message.
    """
    arrays: dict[str, Any] = {}
    if isinstance(value, ChunkResult):
        arrays = {name: array for name, array in vars(value).items() if name != "observation"}
        arrays |= {f"infos {name}": array for name, array in arrays.pop("infos").items()}
        value = value.observation
    arrays |= {name: array for name, array in value.items() if name != "cameras"}
    arrays["task_descriptions"] = np.array(value["task_descriptions"])
    arrays |= {f"camera {name}": frames for name, frames in value["cameras"].items()}
    return {name: array if row is None else array[row] for name, array in arrays.items()}
