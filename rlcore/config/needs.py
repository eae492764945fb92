"""What a component's spec function says of its settings: asked here, and nowhere else. Light."""

from __future__ import annotations

import traceback
from typing import Any

from rlcore.config.schema import RunConfig
from rlcore.errors import ConfigError, PluginError, UserError
from rlcore.installed import LEAVE_OUT
from rlcore.plugins import Registry
from rlcore.specs import AlgorithmNeeds, Kind
from rlcore.targets import load_target


def algorithm_needs(config: RunConfig, registry: Registry) -> AlgorithmNeeds:
    """What the chosen algorithm asks for.

    Raises:
        UserError: settings of it that have no meaning.
    """
    algorithm = config.algorithm
    found = ask_spec(registry, "algorithm", "algorithm", algorithm.name, algorithm)
    if not isinstance(found, AlgorithmNeeds):
        raise PluginError(
            f"algorithm: the spec function of {algorithm.name} must give AlgorithmNeeds, "
            f"got a {type(found).__name__}"
        )
    return found


def ask_spec(registry: Registry, kind: Kind, section: str, name: str, *arguments: Any) -> Any:
    """What a component's spec function says of its settings. A plugin knows its own keys, but
    not which section they stand in: that is said here."""
    component = registry.get(kind, name)
    if component.spec.spec is None:
        raise PluginError(
            f"{kind} {name!r} of {component.distribution} names no spec function, so nothing can "
            "be checked before it starts"
        )
    try:
        return load_target(component.spec.spec)(*arguments)
    except ConfigError as error:
        if section in error.message:
            raise
        raise ConfigError(f"{section}: {error.message}", hint=error.hint) from None
    except UserError:
        raise
    except Exception as error:  # a plugin may fail in any way
        at = error.__traceback__
        own = at.tb_next if at is not None and at.tb_next is not None else at  # without our frame
        text = "".join(traceback.format_exception(type(error), error, own)).rstrip()
        raise PluginError(
            f"{section}: the spec function of {kind} {name!r} ({component.distribution} "
            f"{component.version}) failed:\n{text}",
            hint=f"rlcore plugins; {LEAVE_OUT}",
        ) from error
