"""Select the tasks that a run asks for from those of its env. Light.

A plugin's spec function may narrow its spec to `config.tasks`; if it does not, this module does.
Tasks are selected by name, never by number; :mod:`rlcore.workers.checked_env` maps the names to the
env's numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from rlcore.contracts.errors import ConfigError, PluginError, choices_message
from rlcore.contracts.specs import ActionChannel, CameraSpec, EnvSpec, StateChannel
from rlcore.utils.text import shorten

TUPLES = {
    "tasks": str,
    "instructions": str,
    "cameras": CameraSpec,
    "states": StateChannel,
    "actions": ActionChannel,
}


def checked_spec(spec: EnvSpec, path: str) -> EnvSpec:
    """Return the result of a spec function if a run can be planned with it.

    Raises:
        PluginError: no run can be planned with it (:func:`spec_fault`).
    """
    fault = spec_fault(spec)
    if fault:
        raise PluginError(
            f"{path}: the spec of {spec.name}: {fault}",
            hint="the env's spec function is at fault; rlcore check env NAME finds more of its "
            "kind",
        )
    return spec


def spec_fault(spec: EnvSpec) -> str:
    """Describe why no run can be planned with a spec; empty if one can."""
    for name, kind in TUPLES.items():
        value = getattr(spec, name)
        if not (isinstance(value, tuple) and all(isinstance(item, kind) for item in value)):
            return f"{name} is {shorten(value)}, expected a tuple of {kind.__name__}"
    if len(spec.instructions) != len(spec.tasks):
        return f"{len(spec.instructions)} instructions, expected one for each of {spec.tasks}"
    if not 0 < len(set(spec.tasks)) == len(spec.tasks):
        return f"tasks is {spec.tasks}, expected at least one name, each once"
    for name in ("train_trials", "heldout_trials", "validation_trials"):
        if not isinstance(getattr(spec, name), range):
            return f"{name} is a {type(getattr(spec, name)).__name__}, expected a range"
    steps = spec.max_episode_steps
    if type(steps) is not int or steps < 1:
        return f"max_episode_steps is {steps!r}, expected an int of at least 1"
    names = [camera.name for camera in spec.cameras]
    if len(set(names)) < len(names):
        return f"cameras are named {names}, expected each name once"
    for camera in spec.cameras:
        if min(camera.height, camera.width) < 1:
            size = f"{camera.height} x {camera.width}"
            return f"camera {camera.name!r} is {size}, expected at least 1 x 1"
    channels: tuple[StateChannel | ActionChannel, ...] = (*spec.states, *spec.actions)
    for channel in channels:
        if channel.size < 1:
            return f"channel {channel.meaning!r} has size {channel.size}, expected at least 1"
    if not spec.actions:
        return "actions is empty, expected a channel"
    for action in spec.actions:
        if not -math.inf < action.low < action.high < math.inf:
            bounds = f"[{action.low}, {action.high}]"
            return f"action {action.meaning!r} has range {bounds}, expected finite low < high"
    return ""


def narrowed(spec: EnvSpec, tasks: Sequence[str] | None, path: str) -> EnvSpec:
    """Return the spec with only the given tasks, in the given order.

    Args:
        tasks: names of tasks; None: all tasks of the spec.
        path: path of the env's section, for error messages.

    Raises:
        ConfigError: a task that the env does not have.
    """
    if tasks is None or tuple(tasks) == spec.tasks:
        return spec
    for task in tasks:
        if task not in spec.tasks:
            raise ConfigError(
                f"{path}.tasks: {spec.name} has no task {task!r}"
                f"{choices_message(str(task), spec.tasks)}",
                hint=f"rlcore train env={spec.name} --help {path}.tasks lists them",
            )
    groups = {
        name: tuple(task for task in members if task in tasks)
        for name, members in spec.task_groups.items()
    }
    return replace(
        spec,
        tasks=tuple(tasks),
        instructions=tuple(spec.instructions[spec.tasks.index(task)] for task in tasks),
        task_groups={name: members for name, members in groups.items() if members},
    )
