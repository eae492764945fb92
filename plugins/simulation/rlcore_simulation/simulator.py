"""Define what a plugin provides to simulate on the CPU: a simulator, and a pool of them."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from rlcore.contracts.specs import Episode


@dataclass(frozen=True)
class Step:
    """The result of one env step.

    Attributes:
        reward: before the env's factor and difference (`reward_coef`, `use_rel_reward`).
        success: whether the task is solved in this step.
        info: diagnostics, passed on as `ChunkResult.infos`.
        over: whether the scene can't go on after this step, solved or not, as after a fall. The
            episode terminates; with `ignore_terminations` it is stepped on nevertheless.
    """

    reward: float
    success: bool
    info: Mapping[str, float] = field(default_factory=dict)
    over: bool = False


class Simulator(Protocol):
    """One scene on one CPU, with exact starts. Knows nothing of time limits and rows."""

    def start(self, episode: Episode) -> str:
        """Reset to the start of (task, trial), settled, the same to the bit whatever happened
        before; returns the sentence of the episode."""

    @property
    def states(self) -> np.ndarray:
        """float32 `[S]` in the layout of the spec, a copy."""

    def step(self, action: np.ndarray) -> Step:
        """One env step: action float32 `[A]`, clipped to its range by the simulator."""

    def draw(self, out: Mapping[str, np.ndarray]) -> None:
        """Write the current frame of every camera into `out[name]`, uint8 `[H, W, 3]`, upright
        RGB. Not called if the spec has no camera. An env that offers less detail than the scene
        has draws exactly into :class:`rlcore_simulation.detail.FilmFrames`."""

    def expert_action(self, *, speed: float) -> np.ndarray:
        """The scripted expert's clean action float32 `[A]` for the current state, in range, its
        motion commands scaled by `speed`. Only called if `spec.has_expert`; :meth:`start` clears
        what the expert remembers."""


class ChunkSimulator(ABC):
    """A simulator that carries out the actions of a chunk as one motion, e.g. as waypoints of a
    path that is timed as a whole. A plugin derives from it, and says so in its spec
    (`whole_chunks`)."""

    @abstractmethod
    def start(self, episode: Episode) -> str:
        """As :meth:`Simulator.start`."""

    @property
    @abstractmethod
    def states(self) -> np.ndarray:
        """As :attr:`Simulator.states`."""

    @abstractmethod
    def play(self, actions: np.ndarray) -> Iterator[Step]:
        """Carry out a chunk, actions float32 `[C, A]`: yields the step of each action when it is
        over, C in all. The caller may draw in between, and stops at the end of the episode."""

    @abstractmethod
    def draw(self, out: Mapping[str, np.ndarray]) -> None:
        """As :meth:`Simulator.draw`."""

    @abstractmethod
    def expert_chunk(self, count: int, *, speed: float) -> np.ndarray:
        """The expert's next chunk from the current state, float32 `[count, A]`, in range, its
        motion scaled by `speed`. Only called if `spec.has_expert`."""


AnySimulator = Simulator | ChunkSimulator


def play(simulator: AnySimulator, actions: np.ndarray) -> Iterator[Step]:
    """The steps of a chunk, actions float32 `[C, A]`, each carried out when it is asked for."""
    if isinstance(simulator, ChunkSimulator):
        return simulator.play(actions)
    return (simulator.step(action) for action in actions)


class SimulatorPool(Protocol):
    """The simulators of one process; rows borrow them for the length of an episode.

    :class:`rlcore_simulation.cache.SimulatorCache` is one.
    """

    def take(self, task: int) -> AnySimulator:
        """A simulator of that task, for this caller only until it is given back."""

    def give_back(self, simulator: AnySimulator) -> None:
        """Return a simulator."""

    def close(self) -> None:
        """Free all of them, lent ones too."""


@dataclass(frozen=True)
class SimulatorSource:
    """How a process gets its simulators. It is sent to that process, so it holds strings only.

    Attributes:
        target: `"module:attr"`, a callable(config) -> :class:`SimulatorPool`; the simulating
            process imports it.
        name: of the simulator in errors, e.g. "Sawyer simulator".
        environment: variables to set before that import, unless the user has set them.
        readers: modules that read those variables once, at import; a process that has already
            imported one of them can't simulate.
        packages: what `target` imports besides its own package, rlcore's light modules and this
            library: packages of ours or of a plugin's author that another interpreter
            (`env.train.python`) can't be asked to have installed.
    """

    target: str
    name: str
    environment: Mapping[str, str] = field(default_factory=dict)
    readers: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()

    @property
    def to_stage(self) -> tuple[str, ...]:
        """Modules whose packages another interpreter is handed, beside those of ours."""
        return (self.target.partition(":")[0], *self.packages)

    def unset(self) -> dict[str, str]:
        """The variables of `environment` that this process lacks."""
        return {n: value for n, value in self.environment.items() if not os.environ.get(n)}
