"""Call a component's spec function; no other module does. Light."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from rlcore.config.schema import OWN_SUCCESSES, RunConfig
from rlcore.contracts.errors import ConfigError, PluginError, UserError
from rlcore.contracts.specs import AlgorithmNeeds, EnvSpec, Kind, PolicySpec, ReplayNeeds
from rlcore.plugins.entry_points import LEAVE_OUT
from rlcore.plugins.import_target import load_target
from rlcore.plugins.registry import Registry, wrapped
from rlcore.terminal.text import raised, short

GIVES: dict[Kind, Any] = {"env": EnvSpec, "model": PolicySpec, "algorithm": AlgorithmNeeds}
SUCCESSES = 2**30
"""Bytes of successful episodes that are kept for a control that imitates them, at most."""
PLAIN: dict[str, type] = {"str": str, "int": int, "bool": bool}
"""Types whose values are checked, by how a field is annotated."""


def algorithm_needs(config: RunConfig, registry: Registry) -> AlgorithmNeeds:
    """Return what the chosen algorithm requires, and a control that imitates its successes.

    Raises:
        UserError: settings of it that have no meaning.
    """
    algorithm, sft = config.algorithm, config.sft
    asked = ask_spec(registry, "algorithm", "algorithm", algorithm.name, algorithm)
    needs: AlgorithmNeeds = wrapped(asked, algorithm.wrappers, "spec")
    if needs.replay or not sft.enabled or sft.control != OWN_SUCCESSES:
        return needs
    return replace(needs, replay=ReplayNeeds(SUCCESSES, failures=False))


def ask_spec(registry: Registry, kind: Kind, section: str, name: str, *arguments: Any) -> Any:
    """What a component's spec function says of its settings: of the type in :data:`GIVES`. A plugin
    knows its own keys, but not which section they stand in: that is said here.

    Raises:
        UserError: settings that have no meaning; a spec function that fails or gives another type.
    """
    component = registry.get(kind, name)
    if component.spec.spec is None:
        raise PluginError(
            f"{kind} {name!r} of {component.distribution} names no spec function, so nothing can "
            "be checked before it starts"
        )
    whose = f"{section}: the spec function of {kind} {name!r} ({component.distribution})"
    try:
        found = load_target(component.spec.spec)(*arguments)
    except ConfigError as error:
        if section in error.message:
            raise
        raise ConfigError(f"{section}: {error.message}", hint=error.hint) from None
    except UserError:
        raise
    except Exception as error:  # a plugin may fail in any way
        said = f"{whose} failed: {raised(error, error.__traceback__)}"
        raise PluginError(said, hint=f"rlcore plugins; {LEAVE_OUT}") from error
    wanted = GIVES[kind]
    if not isinstance(found, wanted):
        raise PluginError(f"{whose} must give {wanted.__name__}, got a {type(found).__name__}")
    for field in fields(found):
        value = getattr(found, field.name)
        if not isinstance(value, PLAIN.get(str(field.type), object)):
            raise PluginError(f"{whose}: {field.name} must be {field.type}, got {short(value)}")
    return found
