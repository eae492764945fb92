"""The tasks that a run asks for, out of those an env says it has. Light.

A plugin's spec function may narrow its spec to `config.tasks`; where it does not, it is done here,
for every env alike. Tasks are named, never counted: what is asked of the env itself is found by
name again (:mod:`rlcore.workers.played`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rlcore.errors import ConfigError, PluginError, did_you_mean
from rlcore.specs import EnvSpec


def checked_spec(found: object, path: str) -> EnvSpec:
    """What a spec function gave, if a run can be planned with it.

    Raises:
        PluginError: it is no EnvSpec, or its sentences are not one for each task.
    """
    if not isinstance(found, EnvSpec):
        raise PluginError(
            f"{path}: the env's spec function must give an EnvSpec, got a {type(found).__name__}"
        )
    if len(found.descriptions) != len(found.tasks):
        raise PluginError(
            f"{path}: the spec of {found.name} has {len(found.descriptions)} descriptions for "
            f"{len(found.tasks)} tasks, expected one for each, in order"
        )
    return found


def narrowed(spec: EnvSpec, tasks: Sequence[str] | None, path: str) -> EnvSpec:
    """The spec with the tasks that are asked for, in their order; None: all.

    Raises:
        ConfigError: a task that the env does not have.
    """
    if tasks is None or tuple(tasks) == spec.tasks:
        return spec
    for task in tasks:
        if task not in spec.tasks:
            raise ConfigError(
                f"{path}.tasks: {spec.name} has no task {task!r}: choose from "
                f"{', '.join(spec.tasks)}.{did_you_mean(str(task), spec.tasks)}",
                hint=f"rlcore train --help {path}.tasks",
            )
    groups = {
        name: tuple(task for task in members if task in tasks)
        for name, members in spec.task_groups.items()
    }
    return replace(
        spec,
        tasks=tuple(tasks),
        descriptions=tuple(spec.descriptions[spec.tasks.index(task)] for task in tasks),
        task_groups={name: members for name, members in groups.items() if members},
    )
