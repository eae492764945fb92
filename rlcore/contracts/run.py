"""Define the view of a run that hooks of plugins get, to read its state and to steer it.

    config, folder, tasks, update, env_steps, episodes     read
    print_line(text)                                       print a line for the user
    set_lr_factors, set_task_weights, stop(reason)         steer
    store(name, value), stored()                           store values in checkpoints

Everything set here is part of every checkpoint, so a resumed run continues as an uninterrupted one
would. The module imports neither a tensor library nor Ray; a test of a plugin can construct a
:class:`Run` itself.
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

from rlcore.contracts.errors import PluginError, choices_message

MAX_STORED_BYTES = 2**20
"""Largest number of JSON characters that all plugins together may store. Readers of checkpoints
accept texts of up to 16 times this size."""
MAX_STORED_DEPTH = 50
"""Deepest nesting of lists and mappings in a stored value. Readers of checkpoints accept twice this
depth."""
PARAMETER_GROUPS = ("policy", "value")
"""Parameter groups whose learning rates a plugin can scale: see
:meth:`rlcore.contracts.protocols.Policy.parameter_groups`."""


@dataclass
class Totals:
    """Totals of a run so far. They count training only; evaluations are counted separately."""

    env_steps: int = 0
    episodes: int = 0


@dataclass
class Steering:
    """JSON values set by plugins; the training loop applies them and stores them in checkpoints.

    Attributes:
        lr_factors, task_weights: see :class:`Run`; empty if no plugin has set them.
        stopped: reason to end training; empty if training should continue.
        kept: values stored with :meth:`Run.store`, by name.
    """

    lr_factors: dict[str, float] = field(default_factory=dict)
    task_weights: dict[str, float] = field(default_factory=dict)
    stopped: str = ""
    kept: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """A run as hooks see it.

    Attributes:
        config: the configuration, a frozen :class:`rlcore.config.schema.RunConfig`.
        folder: the run folder.
        tasks: names of the training tasks; `outcome.episode.task` is an index into them.
        update: number of policy updates done so far.
        totals, steering: state of the training loop that the properties and methods below read and
            set; hooks should use those instead.
        say: function that prints a line for the user.
    """

    # Any avoids a cycle of imports: RunConfig needs plugins, they need hooks, hooks need this class
    config: Any
    folder: Path
    tasks: tuple[str, ...]
    update: int = 0
    totals: Totals = field(default_factory=Totals)
    steering: Steering = field(default_factory=Steering)
    say: Callable[[str], None] = print

    @property
    def env_steps(self) -> int:
        """Return the number of env steps of training so far."""
        return self.totals.env_steps

    @property
    def episodes(self) -> int:
        """Return the number of finished training episodes so far."""
        return self.totals.episodes

    def print_line(self, text: str) -> None:
        """Print a line above the progress bars."""
        self.say(text)

    def stop(self, reason: str) -> None:
        """End training after the current update, as after the last update.

        The run writes a checkpoint, evaluates, and writes the summary, which contains the reason.
        This is not an error. `rlcore resume RUN` does not train such a run any further, but
        `rlcore resume` with one of its checkpoints does. If called several times, the first reason
        counts. The call has no effect if the run trains nothing or if training is already over.

        Raises:
            PluginError: the reason is empty or not a string.
        """
        if not isinstance(reason, str) or not reason.strip():
            raise PluginError(f"run.stop needs a reason, as a string, got {reason!r}")
        self.steering.stopped = self.steering.stopped or reason.strip()

    @property
    def lr_factors(self) -> Mapping[str, float]:
        """Return the factor on the scheduled learning rate of each parameter group ("policy",
        "value"); 1 unless set."""
        return MappingProxyType(
            {**dict.fromkeys(PARAMETER_GROUPS, 1.0), **self.steering.lr_factors}
        )

    def set_lr_factors(self, factors: Mapping[str, float]) -> None:
        """Set :attr:`lr_factors` from the next update on; the factor of omitted groups is 1.

        Raises:
            PluginError: a group is unknown, or a factor is negative or not a finite number.
        """
        self.steering.lr_factors = _checked_numbers(
            "a factor on the learning rate", factors, PARAMETER_GROUPS
        )

    @property
    def task_weights(self) -> Mapping[str, float]:
        """Return how often each training task is drawn, relative to the others; 1 unless set.

        A group of episodes counts as one draw, because its members share a task.
        """
        return MappingProxyType({**dict.fromkeys(self.tasks, 1.0), **self.steering.task_weights})

    def set_task_weights(self, weights: Mapping[str, float]) -> None:
        """Set :attr:`task_weights` from the next rollout on.

        The weight of omitted tasks is 1. A task with weight 0 is not drawn.

        Raises:
            PluginError: a task is unknown, a weight is negative or not a finite number, or all
                weights are 0.
        """
        checked = _checked_numbers("a task's weight", weights, self.tasks)
        if not any({**dict.fromkeys(self.tasks, 1.0), **checked}.values()):
            raise PluginError("at least one task must have a weight above 0, got 0 for all")
        self.steering.task_weights = checked

    def stored(self) -> Mapping[str, Any]:
        """Return a copy of the values of all plugins stored with :meth:`store`, by name."""
        return MappingProxyType(copy.deepcopy(self.steering.kept))

    def store(self, name: str, value: Any) -> None:
        """Store a JSON value in checkpoints, so that it survives a resume.

        A value stored earlier under the same name is replaced. All plugins share the names, so
        prefix the name with that of your plugin.

        Raises:
            PluginError: the name is not a string, the value has no JSON form (NaN and infinity have
                none), it is nested deeper than :data:`MAX_STORED_DEPTH`, or all stored values
                together exceed :data:`MAX_STORED_BYTES`.
        """
        if not isinstance(name, str):
            raise PluginError(f"run.store needs a name, as a string, got {name!r}")
        try:
            # converted as by a checkpoint (tuples become lists), so that a resume changes nothing
            text = json.dumps(value, allow_nan=False)
            stored = {**self.steering.kept, name: json.loads(text)}
            if _depth(stored[name]) > MAX_STORED_DEPTH:
                raise ValueError("its values are nested too deeply")
            if (size := len(json.dumps(stored))) > MAX_STORED_BYTES:
                raise ValueError(f"at most {MAX_STORED_BYTES} characters in all, got {size}")
        except (TypeError, ValueError, RecursionError) as error:
            raise PluginError(f"run.store({name!r}, ...) needs a JSON value: {error}") from error
        self.steering.kept = stored


def _depth(value: Any) -> int:
    """Return the nesting depth of lists and mappings in a JSON value; 0 for a number or string."""
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list):
        return 0
    return 1 + max(map(_depth, value), default=0)


def _checked_numbers(
    what: str, numbers_by_name: Mapping[str, float], names: tuple[str, ...]
) -> dict[str, float]:
    """Return the numbers as floats, after checking their names and values."""
    for name, value in numbers_by_name.items():
        if name not in names:
            raise PluginError(f"{what} was set for {name!r}{choices_message(str(name), names)}")
        if not isinstance(value, numbers.Real) or not math.isfinite(value) or value < 0:
            raise PluginError(f"{what} must be a number of 0 or more, got {value!r} for {name!r}")
    return {name: float(value) for name, value in numbers_by_name.items()}
