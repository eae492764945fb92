"""Restart a vector env whose simulators were lost, and repeat the episodes under way.

An episode is determined by its address and its actions, both of which are known here. When a
simulator dies or hangs, the env is built anew and each row's episode replayed from its start, so
that the caller notices nothing but the time it took.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from rlcore.contracts.errors import EnvError, RunWarning, SimulatorError, warn
from rlcore.contracts.protocols import (
    ChunkResult,
    Demonstration,
    Env,
    Observation,
    SuspendableEnv,
)
from rlcore.contracts.specs import UNKNOWN, EnvSpec, Episode


class EnvWarning(RunWarning):
    """A fault of an env that costs the run nothing."""


@dataclass
class _History:
    """A row since its last reset: actions `[C, A]` per chunk."""

    episode: Episode
    chunks: list[np.ndarray] = field(default_factory=list)


class RestartingEnv:
    """The calls of :class:`rlcore.contracts.protocols.Env` that a run makes, over an env that may
    be lost.

    Args:
        make: builds the env.
        restarts: times in a row it is built anew before the error is raised.

    Attributes:
        incidents: failures since they were last taken, one text each.
    """

    def __init__(self, make: Callable[[], Env], restarts: int) -> None:
        self._make = make
        self._restarts = restarts
        self._env = make()
        self._rows: dict[int, _History] = {}
        self._recorded: Sequence[int] = ()
        self.spec: EnvSpec = self._env.spec
        self.num_envs = self._env.num_envs
        self.incidents: list[str] = []

    def reset(self, *, options: Mapping[str, Any]) -> tuple[Observation, dict[str, Any]]:
        """As the env's, with `episodes` for all rows."""
        result = self._recovering(lambda: self._env.reset(options=options))
        mask = options.get("reset_mask", np.ones(self.num_envs, dtype=bool))
        for row in np.flatnonzero(mask).tolist():
            self._rows[row] = _History(options["episodes"][row])
        return result

    def chunk_step(self, actions: np.ndarray) -> ChunkResult:
        """One chunk of all rows."""
        result = self._recovering(lambda: self._env.chunk_step(actions))
        for row, past in self._rows.items():
            past.chunks.append(actions[row].copy())
        return result

    def demonstrate(self, episodes: Sequence[Episode], **settings: Any) -> Iterator[Demonstration]:
        """Expert episodes; those that were not handed out yet are played again.

        Raises:
            EnvError: other episodes than those asked for, or fewer.
        """
        missing = list(episodes)
        failures = 0
        while missing:
            try:
                for demonstration in self._env.demonstrate(tuple(missing), **settings):
                    _take_off(missing, demonstration, self.spec)
                    failures = 0
                    yield demonstration
                if missing:
                    raise EnvError(
                        f"env {self.spec.name} ended its demonstrations without "
                        f"{tuple(missing[0])}, expected each episode asked for",
                        hint="yield one demonstration per episode, even if the expert fails",
                    )
            except SimulatorError as error:
                failures += 1
                self._build_anew(error, failures, midway=False)

    def record(self, rows: Sequence[int]) -> None:
        """Which rows are filmed."""
        self._recorded = tuple(rows)
        self._recovering(lambda: self._env.record(rows))

    def recorded(self) -> dict[int, list[np.ndarray]]:
        """Frames since the last call; a lost simulator's go with it."""
        return self._recovering(lambda: self._env.recorded())

    def suspend(self) -> None:
        """As the env's; only for one that can be suspended."""
        self._recovering(lambda: cast(SuspendableEnv, self._env).suspend())

    def resume(self) -> None:
        """Likewise."""
        self._recovering(lambda: cast(SuspendableEnv, self._env).resume())

    def close(self) -> None:
        """Close the env. One that can't be closed is a warning: what it played is with the run."""
        try:
            self._env.close()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            told = (
                f"env {self.spec.name} failed while it was being closed; nothing of the run is lost"
            )
            warn(f"{told}: {type(error).__name__}: {error}", EnvWarning)

    # -- surviving --------------------------------------------------------------------------

    def _recovering(self, call: Callable[[], Any]) -> Any:
        """The call's result, after as many restarts as it takes.

        Raises:
            SimulatorError: it failed too often in a row, or its episodes can't be repeated exactly.
        """
        failures = 0
        while True:
            try:
                if failures:
                    self._replay()
                return call()
            except SimulatorError as error:
                failures += 1
                midway = any(past.chunks for past in self._rows.values())
                self._build_anew(error, failures, midway=midway)

    def _build_anew(self, error: SimulatorError, failures: int, *, midway: bool) -> None:
        """Build the env anew, unless what was lost could not be repeated: `midway` says that it
        is more than starts."""
        exact = self.spec.start_exactness == "bitwise"
        exact &= self.spec.course_repeats or not midway
        if failures > self._restarts or not exact:
            raise error
        self.incidents.append(error.message)
        self.close()
        self._env = self._make()
        require_same_versions(self.spec, self._env.spec)

    def _replay(self) -> None:
        """Bring every row back to where it was. Rows begin one after the other, so that all of
        them arrive with the same chunk: a row can't wait in the middle of an episode."""
        length = max((len(row.chunks) for row in self._rows.values()), default=0)
        episodes = [
            self._rows[row].episode if row in self._rows else Episode(0, 0)
            for row in range(self.num_envs)
        ]
        for chunk in range(length + 1):
            starts = [row for row, past in self._rows.items() if length - len(past.chunks) == chunk]
            if starts:
                mask = np.zeros(self.num_envs, dtype=bool)
                mask[starts] = True
                self._env.reset(options={"reset_mask": mask, "episodes": episodes})
            if chunk < length:
                self._env.chunk_step(self._actions(chunk - length))
        self._env.record(self._recorded)

    def _actions(self, place: int) -> np.ndarray:
        """Actions `[B, C, A]` of all rows at a place counted from the end of their histories."""
        playing = {row: p.chunks for row, p in self._rows.items() if -place <= len(p.chunks)}
        shape = next(iter(playing.values()))[place].shape
        actions = np.zeros((self.num_envs, *shape), dtype=np.float32)
        for row, chunks in playing.items():
            actions[row] = chunks[place]
        return actions


def require_same_versions(planned: EnvSpec, made: EnvSpec) -> None:
    """Check that what simulates is what the run was planned with, and what its manifest names.

    Raises:
        EnvError: it has another version.
    """
    for name, expected in planned.versions.items():
        found = made.versions.get(name, "none")
        if found != expected and UNKNOWN not in (found, expected):
            raise EnvError(
                f"env {planned.name}: {name} is at version {found} where it simulates, expected "
                f"{expected}",
                hint="it was changed since the run began, or differs between nodes: use one version"
                ", and go on with rlcore resume RUN",
            )


def _take_off(missing: list[Episode], demonstration: Any, spec: EnvSpec) -> None:
    """Remove the demonstrations that were handed out."""
    if not isinstance(demonstration, Demonstration) or demonstration.episode not in missing:
        of = demonstration.episode if isinstance(demonstration, Demonstration) else demonstration
        raise EnvError(
            f"env {spec.name} demonstrated {of!r}, expected one of the episodes asked for, each "
            "once",
            hint="yield one demonstration per episode asked for, with its own address",
        )
    missing.remove(demonstration.episode)
