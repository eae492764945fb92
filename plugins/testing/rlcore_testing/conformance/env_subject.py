"""The env under test, and what the checks play on it."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
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
ROUNDING = 1e-5
Arrays = Mapping[str, Any]


@dataclass(frozen=True)
class Play:
    """Starts of some rows and what came of one chunk of actions."""

    start: Observation
    result: ChunkResult


class EnvSubject(Conformance):
    """Makes envs, plays chunks and compares them.

    Attributes:
        accuracy: to which starts agree where `spec.start_exactness` is not "bitwise", in units of
            the states.
        simulator_loads: heavy packages that the simulator itself needs, e.g. ("torch",).
        memory_episodes: episodes over which memory must not grow; 0: nobody looks.
        memory_seconds: where those take longer, so many are played as do not.
    """

    kind = "env"
    accuracy: ClassVar[float] = 1e-3
    simulator_loads: ClassVar[Sequence[str]] = ()
    memory_episodes: ClassVar[int] = 0
    memory_seconds: ClassVar[float] = 30.0

    def make(self, config: Any, num_envs: int) -> Env:
        """The env as an env worker makes it."""
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
        """An episode and actions float32 `[L, A]` whose last one solves it; None if none is
        known. An env without an expert may name one here. Where chunks are motions, a
        demonstration is none: the checks cut it into other chunks."""
        if self.spec.whole_chunks:
            return None
        for demonstration in self.demonstrations():
            if demonstration.success:
                return demonstration.episode, demonstration.actions
        return None

    @property
    def spec(self) -> EnvSpec:
        return self.env().spec

    @property
    def stride(self) -> int:
        """Steps between the frames of demonstrations; where chunks are motions, their length."""
        return CHUNK if self.spec.whole_chunks else STRIDE

    def env(self, num_envs: int = ROWS, *, instance: int = 0, **changes: Any) -> Env:
        """An env all checks share; every check resets what it uses."""
        config = self.config(**changes)

        def make() -> Env:
            made = self.make(config, num_envs)
            self._closing.callback(made.close)
            return made

        return self.shared((num_envs, instance, repr(config)), make)

    def episodes(self, count: int, *, first: int = 0) -> list[Episode]:
        """Training episodes of tasks in turn."""
        tasks, trials = len(self.spec.tasks), self.spec.train_trials
        return [Episode(i % tasks, trials[i % len(trials)]) for i in range(first, first + count)]

    def actions(self, rows: int, *, key: int = 0) -> np.ndarray:
        """One chunk of uniform actions float32 `[rows, CHUNK, A]`."""
        low, high = self.action_range()
        shape = (rows, CHUNK, self.spec.action_dim)
        draw = generator("conformance actions", key).uniform(low, high, shape)
        return draw.astype(np.float32)

    def rest(self) -> np.ndarray:
        """The middle of the range, float32 `[1, A]`."""
        low, high = self.action_range()
        return ((low + high) / 2)[None].astype(np.float32)

    def play(self, env: Env, episodes: Sequence[Episode], actions: np.ndarray) -> Play:
        """Reset all rows and play one chunk; copies, whatever the env does with its own."""
        start = copy.deepcopy(env.reset(options={"episodes": list(episodes)})[0])
        return Play(start, copy.deepcopy(env.chunk_step(actions)))

    def reference(self) -> Play:
        """The first episodes and actions, played before anything else was in a new env."""

        def play() -> Play:
            env = self.make(self.config(), ROWS)
            try:
                return self.play(env, self.episodes(ROWS), self.actions(ROWS))
            finally:
                env.close()

        return self.shared("reference", play)

    def demonstrations(self) -> list[Demonstration]:
        """Expert episodes without noise; empty without an expert."""
        if not self.spec.has_expert:
            return []
        return self.shared("expert", lambda: self.demonstrate(self.demonstrated()))

    def demonstrate(
        self,
        episodes: Sequence[Episode],
        *,
        noise: float = 0.0,
        seed: int = 0,
        max_steps: int | None = None,
    ) -> list[Demonstration]:
        return list(
            self.env().demonstrate(
                episodes,
                action_noise=noise,
                speed=1.0,
                stride=self.stride,
                seed=seed,
                max_steps=max_steps,
            )
        )

    def demonstrated(self) -> list[Episode]:
        """The episodes asked of the expert."""
        return self.episodes(4)

    def expert(self) -> list[Demonstration]:
        """Its demonstrations; skips the check if it has none."""
        skip_unless(self.spec.has_expert, "spec.has_expert is false")
        return self.demonstrations()

    def solved(self) -> tuple[Episode, np.ndarray]:
        """The solution; leaves the check out where none is known, or need not solve again."""
        self.repeats_its_course()
        solution = self.solution()
        skip_unless(solution is not None, "no solution is known: override solution() to give one")
        assert solution is not None
        return solution

    def play_solution(self, episode: Episode, actions: np.ndarray, **changes: Any) -> ChunkResult:
        """One episode played in one chunk by an env of changed settings."""
        return self.play(self.env(1, **changes), [episode], actions[None]).result

    def to_the_end(self) -> tuple[list[Episode], np.ndarray]:
        """Episodes of all rows and actions `[ROWS, K CHUNK, A]`; row 0 is solved if a solution
        is known, and its last chunk goes on after it."""
        episodes = self.episodes(ROWS)
        solution = self.solution()
        if solution is None:
            return episodes, self.actions(ROWS)
        episodes[0], solving = solution
        chunks = len(solving) // CHUNK + 1
        actions = np.concatenate([self.actions(ROWS, key=k) for k in range(chunks)], axis=1)
        actions[0, : len(solving)] = solving
        return episodes, actions

    def action_range(self) -> tuple[np.ndarray, np.ndarray]:
        """Least and greatest action float64 `[A]`."""
        channels = self.spec.actions
        sizes = [channel.size for channel in channels]
        low, high = [c.low for c in channels], [c.high for c in channels]
        return np.repeat(np.array(low), sizes), np.repeat(np.array(high), sizes)

    def require_close(self, what: str, got: Any, expected: Any, *, hint: str) -> None:
        """Equal to the accuracy that the spec promises; other accuracies promise no pixels."""
        if not self.tolerance or not what.startswith("camera"):
            require_equal(what, got, expected, atol=self.tolerance, hint=hint)

    def repeats_its_course(self) -> None:
        """Leave a check out that compares what follows a start with what followed it before, where
        the spec does not promise that."""
        skip_unless(self.spec.course_repeats, "spec.course_repeats is false")

    @property
    def tolerance(self) -> float:
        """To which starts agree, in units of the states."""
        return 0.0 if self.spec.start_exactness == "bitwise" else self.accuracy

    def require_same(self, what: str, got: Arrays, expected: Arrays, *, hint: str) -> None:
        """Each array close to that of its name; what is missing is equal to nothing."""
        for name, array in expected.items():
            self.require_close(f"{name} {what}", got.get(name, np.nan), array, hint=hint)


def extended(actions: np.ndarray, length: int) -> np.ndarray:
    """Actions `[B, L, A]` cut or, with the last one repeated, filled up to `length` steps."""
    return actions[:, np.minimum(np.arange(length), actions.shape[1] - 1)]


def arrays_of(handed: Observation | ChunkResult, row: int | None = None) -> dict[str, Any]:
    """What is in an observation or a result, or in a row of it, flat, by name; sentences as an
    array of strings. Pixels come last: where several things differ, numbers say more."""
    parts = _flat("", handed if isinstance(handed, dict) else vars(handed))
    ordered = sorted(parts, key=lambda part: part[0].startswith("camera"))
    return {name: part if row is None else part[row] for name, part in ordered}


def _flat(prefix: str, parts: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, part in parts.items():
        if isinstance(part, Mapping):
            kind = {"cameras": "camera ", "observation": ""}.get(name, f"{name} ")
            yield from _flat(prefix + kind, part)
        elif name == "task_descriptions":
            yield prefix + name, np.array(part)
        else:
            yield prefix + name, part
