"""Define the settings common to all envs that use :mod:`rlcore_simulation`. Light to import."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlcore.config.schema import EnvConfig, Settings, TrustedKey, When, key
from rlcore.config.schema_tree import walk
from rlcore.contracts.errors import ConfigError
from rlcore.contracts.specs import ComponentSpec
from rlcore_simulation.detail import DETAILS, EXACT

KNOWN = "rlcore_simulation.known_interpreters:known"
"""What allows a saved run to name an interpreter."""


def render_detail_key(when: Sequence[When] = ()) -> Any:
    """Return the key `render_detail`, for envs that can render both levels of detail.

    Args:
        when: conditions under which the key applies: see :func:`rlcore.config.schema.key`.
    """
    return key(
        "geometry and textures of frames drawn on a CPU: exact, as the scene has them; pixel, as "
        "much as the pixels can show: faster, and other pixels here and there; in the manifest",
        EXACT,
        choices=DETAILS,
        when=when,
    )


def interpreter_key(help: str, effect: str) -> Any:
    """Return the key of an interpreter in whose environment a component computes.

    Args:
        help: help text of the key.
        effect: effect of the key: see :class:`rlcore.config.schema.TrustedKey`.
    """
    trusted = TrustedKey(effect, (None,), allowed=KNOWN)
    return key(help, place="program", trusted=trusted)


def interpreter_path(section: Settings, path: str) -> str:
    """Return the dotted path of the :func:`interpreter_key` of a section at `path`.

    It is `PATH.python` if the section has none.
    """
    for found in walk(section, path):
        if found.trusted is not None and found.trusted.allowed == KNOWN:
            return found.path
    return f"{path}.python"


def each_once(kind: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return the names that a key lists, and check that there is at least one and no duplicate.

    Args:
        kind: what the names denote, in the singular, for error messages, e.g. "task".

    Raises:
        ConfigError: `names` is empty, or contains a name twice.
    """
    if not names or len(set(names)) != len(names):
        raise ConfigError(f"{kind}s must name at least one {kind}, each once, got {names}")
    return tuple(names)


def groups_of(
    tasks: Sequence[str], groups: Mapping[str, Collection[str]]
) -> dict[str, tuple[str, ...]]:
    """Return the groups restricted to `tasks`, without empty groups.

    Groups, and the tasks in each, keep the order in which `groups` lists them.
    """
    selected = {
        name: tuple(task for task in members if task in tasks) for name, members in groups.items()
    }
    return {name: members for name, members in selected.items() if members}


@dataclass
class SimulatedEnvConfig(EnvConfig):
    """Settings of an env whose simulators run on the CPU; a plugin's dataclass adds its own."""

    render_final: bool = key(
        "render the last frame of an episode cut off by the time limit; needed to bootstrap "
        "its value",
        True,
    )
    simulator_timeout: float = key(
        "seconds a simulator process may take for one command before it counts as hung",
        120.0,
        exclusive_minimum=0,
    )
    python: str | None = interpreter_key(
        "interpreter in whose environment the simulators run, as a path or a name, or the folder "
        "of its virtual environment; null: the one that rlcore runs in, or if that lacks something "
        "that they need, the newest that rlcore venv create made for the env",
        "runs its simulators with",
    )

    def interpreter(self) -> str | None:
        return self.python

    def resolve(self, spec: ComponentSpec) -> None:
        if self.python is None:
            # imported here because simulator processes import this module, but never compose a
            # configuration
            from rlcore_simulation.venvs import find_environment

            self.python = find_environment(spec)
