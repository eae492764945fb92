"""What a plugin brings to simulate on the CPU: one scene at a time, and how to get it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from rlcore.specs import Episode


@dataclass(frozen=True)
class Step:
    """What came of one env step.

    Attributes:
        reward: before the env's factor and difference (`reward_coef`, `use_rel_reward`).
        success: whether the task is solved in this step.
        info: diagnostics, handed on as `ChunkResult.infos`.
    """

    reward: float
    success: bool
    info: Mapping[str, float] = field(default_factory=dict)


class Simulator(Protocol):
    """One scene on one CPU: started exactly, stepped, drawn. Knows no time limit and no row."""

    def start(self, episode: Episode) -> str:
        """Put it into the start of (task, trial), settled, bitwise the same whatever happened
        before; returns the sentence of the episode."""
        ...

    @property
    def states(self) -> np.ndarray:
        """float32 `[S]` as the spec lays them out, a copy."""
        ...

    def step(self, action: np.ndarray) -> Step:
        """One env step: action float32 `[A]`, clipped to its range by the simulator."""
        ...

    def draw(self, out: Mapping[str, np.ndarray]) -> None:
        """Write the current frame of every camera into `out[name]`, uint8 `[H, W, 3]`, upright
        RGB. Not called where the spec has no camera."""
        ...

    def expert_action(self, *, speed: float) -> np.ndarray:
        """The scripted expert's clean action float32 `[A]` for the current state, in range, its
        motion commands scaled by `speed`. Only asked where `spec.has_expert`; what the expert
        remembers is cleared by :meth:`start`."""
        ...


class SimulatorPool(Protocol):
    """The simulators of one process; rows borrow them for the length of an episode.

    :class:`rlcore_simulation.cache.SimulatorCache` is one.
    """

    def take(self, task: int) -> Simulator:
        """A simulator of that task for the caller alone, until it is given back."""
        ...

    def give_back(self, simulator: Simulator) -> None:
        """Return a simulator."""
        ...

    def close(self) -> None:
        """Free all of them, lent ones too."""
        ...


@dataclass(frozen=True)
class SimulatorSource:
    """How a process gets its simulators. Travels to it, so made of strings.

    Attributes:
        target: `"module:attr"`, a callable(config) -> :class:`SimulatorPool`; imported where it
            is simulated.
        name: what errors call a simulator, e.g. "Sawyer simulator".
        environment: variables to be set before that import; one that the user has set stays.
        readers: modules that read those variables once, when they are imported: too late to
            simulate in a process that holds one of them already.
    """

    target: str
    name: str
    environment: Mapping[str, str] = field(default_factory=dict)
    readers: tuple[str, ...] = ()

    def unset(self) -> dict[str, str]:
        """The variables of `environment` that this process lacks."""
        return {n: value for n, value in self.environment.items() if not os.environ.get(n)}
