"""Call the spec functions of components. No other module calls them. Light."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from rlcore.config.schema import OWN_SUCCESSES, RunConfig
from rlcore.config.wrappers import wrap_needs
from rlcore.contracts.errors import ConfigError, PluginError, UserError
from rlcore.contracts.specs import AlgorithmNeeds, EnvSpec, Kind, PolicySpec, ReplayNeeds
from rlcore.plugins.entry_points import LEAVE_OUT
from rlcore.plugins.import_target import load_target
from rlcore.plugins.registry import Registry
from rlcore.utils.text import format_exception, shorten

GIVES: dict[Kind, Any] = {"env": EnvSpec, "model": PolicySpec, "algorithm": AlgorithmNeeds}
SUCCESSES = 2**30
"""Capacity in bytes of the replay of successful episodes, for a control that imitates them."""
PLAIN: dict[str, type] = {"str": str, "int": int, "bool": bool}
"""Types of spec fields whose values are checked, by their annotation."""


def algorithm_needs(config: RunConfig, registry: Registry) -> AlgorithmNeeds:
    """Return what the chosen algorithm requires.

    A replay of successful episodes is added if the algorithm has no replay and a control imitates
    its successes (`sft.control=own_successes`).

    Raises:
        UserError: the algorithm's spec function rejects its settings.
    """
    algorithm = config.algorithm
    spec = ask_spec(registry, "algorithm", "algorithm", algorithm.name, algorithm)
    needs = wrap_needs(spec, algorithm.wrappers)
    if needs.replay or not config.sft.enabled or config.sft.control != OWN_SUCCESSES:
        return needs
    return replace(needs, replay=ReplayNeeds(SUCCESSES, failures=False))


def ask_spec(registry: Registry, kind: Kind, section: str, name: str, *arguments: Any) -> Any:
    """Call a component's spec function and check the type of its result.

    A plugin does not know in which section its keys are, so `section` is put before its errors.

    Args:
        section: dotted path of the component's section.
        name: registered name of the component.
        arguments: arguments of the spec function.

    Returns:
        An instance of the type that :data:`GIVES` has for `kind`.

    Raises:
        ConfigError: the spec function rejects the settings.
        PluginError: there is no spec function, it fails, or it returns another type or a field of
            another type.
        UserError: any other such error that the spec function raises.
    """
    component = registry.get(kind, name)
    if component.spec.spec is None:
        raise PluginError(
            f"{kind} {name!r} of {component.distribution} names no spec function, so nothing can "
            "be checked before it starts"
        )
    function = f"{section}: the spec function of {kind} {name!r} ({component.distribution})"
    try:
        result = load_target(component.spec.spec)(*arguments)
    except ConfigError as error:
        if section in error.message:
            raise
        raise ConfigError(f"{section}: {error.message}", hint=error.hint) from None
    except UserError:
        raise
    except Exception as error:  # a plugin may fail in any way
        message = f"{function} failed: {format_exception(error, error.__traceback__)}"
        raise PluginError(message, hint=f"rlcore plugins; {LEAVE_OUT}") from error
    expected = GIVES[kind]
    if not isinstance(result, expected):
        raise PluginError(
            f"{function} must give {expected.__name__}, got a {type(result).__name__}"
        )
    for field in fields(result):
        value = getattr(result, field.name)
        if not isinstance(value, PLAIN.get(str(field.type), object)):
            raise PluginError(
                f"{function}: {field.name} must be {field.type}, got {shorten(value)}"
            )
    return result
