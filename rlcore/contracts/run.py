"""Define what a plugin's hooks receive of a run: what they may read, and how they may steer it.

    config, folder, tasks, update, env_steps, episodes     read
    line(text)                                             print a line for the user
    set_lr_factors, set_task_weights, stop(reason)         steer
    keep(name, value), kept()                              store something across a resume

Everything set here is part of every checkpoint, so a resumed run continues as an uninterrupted one
would. Imports neither a tensor library nor Ray; a test of a plugin can make a :class:`Run` itself.
"""

from __future__ import annotations

import copy
import json
import math
import numbers
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rlcore.contracts.errors import PluginError, choosing

MOST_KEPT = 2**20
"""Characters of all that plugins keep; who reads a checkpoint takes 16 times as many."""
DEEPEST_KEPT = 50
"""Levels of lists and mappings; who reads a checkpoint takes twice as many."""
PARAMETER_GROUPS = ("policy", "value")
"""What can have learning rates of its own: see
:meth:`rlcore.contracts.protocols.Policy.parameter_groups`."""


@dataclass
class Totals:
    """What a run has used so far: training only, evaluations are counted separately."""

    env_steps: int = 0
    episodes: int = 0


@dataclass
class Steering:
    """Values set by plugins, as JSON; the loop applies them and stores them in checkpoints.

    Attributes:
        lr_factors, task_weights: as of :class:`Run`; empty: nothing was set.
        stopped: why training should end; empty: it should not.
        kept: what plugins want to remember.
    """

    lr_factors: dict[str, float] = field(default_factory=dict)
    task_weights: dict[str, float] = field(default_factory=dict)
    stopped: str = ""
    kept: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """A run as its hooks see it.

    Attributes:
        config: its configuration, a frozen :class:`rlcore.config.schema.RunConfig`.
        folder: where it leaves its files.
        tasks: names of the tasks that it trains on; `outcome.episode.task` is a place in this list.
        update: policy updates done so far.
        totals, steering: the loop's side of what is below.
        say: prints a line.
    """

    # Any, as the configuration knows plugins, which know hooks, which know this: a circle
    config: Any
    folder: Path
    tasks: tuple[str, ...]
    update: int = 0
    totals: Totals = field(default_factory=Totals)
    steering: Steering = field(default_factory=Steering)
    say: Callable[[str], None] = print

    @property
    def env_steps(self) -> int:
        """Env steps of training so far."""
        return self.totals.env_steps

    @property
    def episodes(self) -> int:
        """Finished episodes of training so far."""
        return self.totals.episodes

    def line(self, text: str) -> None:
        """Print one line that stays, above the progress bars."""
        self.say(text)

    def stop(self, reason: str) -> None:
        """End training: after the update under way comes what comes after the last one, that is a
        checkpoint, the evaluation and the summary, which gives the reason.

        This is not an error. `rlcore resume RUN` doesn't train such a run any further; given one of
        its checkpoints it does. The first reason counts. Where nothing is trained, or training is
        already over, nothing happens.

        Raises:
            PluginError: no reason.
        """
        if not isinstance(reason, str) or not reason.strip():
            raise PluginError(f"run.stop needs a reason, as a string, got {reason!r}")
        self.steering.stopped = self.steering.stopped or reason.strip()

    @property
    def lr_factors(self) -> Mapping[str, float]:
        """What the scheduled learning rate of each group of parameters ("policy", "value") is
        multiplied by; 1 unless set."""
        return MappingProxyType(
            {**dict.fromkeys(PARAMETER_GROUPS, 1.0), **self.steering.lr_factors}
        )

    def set_lr_factors(self, factors: Mapping[str, float]) -> None:
        """Set :attr:`lr_factors` from the next update on; groups that are left out have 1.

        Raises:
            PluginError: an unknown group, or a factor that is negative or not a number.
        """
        self.steering.lr_factors = _numbers(
            "a factor on the learning rate", factors, PARAMETER_GROUPS
        )

    @property
    def task_weights(self) -> Mapping[str, float]:
        """How often each training task is drawn, relative to the others; 1 unless set. A group of
        episodes counts once: its members share a task."""
        return MappingProxyType({**dict.fromkeys(self.tasks, 1.0), **self.steering.task_weights})

    def set_task_weights(self, weights: Mapping[str, float]) -> None:
        """Set :attr:`task_weights` from the next rollout on; tasks that are left out have 1, and
        one with 0 is not drawn.

        Raises:
            PluginError: an unknown task, a weight that is negative or not a number, or all are 0.
        """
        checked = _numbers("a task's weight", weights, self.tasks)
        if not any({**dict.fromkeys(self.tasks, 1.0), **checked}.values()):
            raise PluginError("at least one task must have a weight above 0, got 0 for all")
        self.steering.task_weights = checked

    def kept(self) -> Mapping[str, Any]:
        """Return a copy of what plugins remember, by name."""
        return MappingProxyType(copy.deepcopy(self.steering.kept))

    def keep(self, name: str, value: Any) -> None:
        """Remember a JSON value over a resume; a name of a plugin's own keeps plugins apart.

        Raises:
            PluginError: the name is no text, JSON has no such value, or it is too large.
        """
        if not isinstance(name, str):
            raise PluginError(f"run.keep needs a name, as a string, got {name!r}")
        try:
            # as it comes out of a checkpoint, so that a resume makes no difference (tuples, keys)
            text = json.dumps(value, allow_nan=False)
            kept = {**self.steering.kept, name: json.loads(text)}
            if _depth(kept[name]) > DEEPEST_KEPT:
                raise ValueError("its values are nested too deeply")
            if (size := len(json.dumps(kept))) > MOST_KEPT:
                raise ValueError(f"at most {MOST_KEPT} characters in all, got {size}")
        except (TypeError, ValueError, RecursionError) as error:
            raise PluginError(f"run.keep({name!r}, ...) takes what JSON has: {error}") from error
        self.steering.kept = kept


def _depth(value: Any) -> int:
    """Count the levels of lists and mappings in a JSON value; 0 for a number or a text."""
    if isinstance(value, dict):
        value = list(value.values())
    return 1 + max(map(_depth, value), default=0) if isinstance(value, list) else 0


def _numbers(what: str, given: Mapping[str, float], names: tuple[str, ...]) -> dict[str, float]:
    """Return them as floats, checked."""
    for name, value in given.items():
        if name not in names:
            raise PluginError(f"{what} was set for {name!r}{choosing(str(name), names)}")
        if not isinstance(value, numbers.Real) or not math.isfinite(value) or value < 0:
            raise PluginError(f"{what} must be a number of 0 or more, got {value!r} for {name!r}")
    return {name: float(value) for name, value in given.items()}
