"""Warn about a configuration, and replace its keys and values from earlier versions.

Plugins translate the keys of other systems (:func:`rlcore.contracts.hookspecs.rlcore_old_keys`).
Keys that differ from the present ones only in case are not handled here:
:mod:`rlcore.config.bind` corrects them wherever they occur.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlcore.config import schema_tree
from rlcore.contracts import errors
from rlcore.terminal.text import format_exception, format_value

if TYPE_CHECKING:
    from rlcore.config.schema import RunConfig
    from rlcore.plugins.registry import Registry

Values = dict[str, Any]
OLD_VALUES = {
    ("rollout.sync", "shared_memory"): "object_store",
    ("sft.control", True): "demonstrations",
    ("sft.control", False): None,
}


class ConfigWarning(errors.RunWarning):
    """Warns of something in the configuration that works but should be written differently."""


def warn(message: str) -> None:
    """Warn about the configuration; the command line prints it as one line."""
    errors.warn(message, ConfigWarning)


def modernise(layers: list[Values], registry: Registry, config: RunConfig | None) -> None:
    """Replace old keys and values, in place.

    Args:
        layers: mappings of nested values that are not bound to the schema yet.
        registry: the plugins, whose hook `rlcore_old_keys` is called first.
        config: the defaults of the chosen components; None: they are not known.

    Raises:
        UserError: an old key that has no equivalent.
        PluginError: the hook of a plugin fails.
    """
    try:
        registry.manager.hook.rlcore_old_keys(layers=layers, config=config)
    except errors.UserError:
        raise
    except Exception as error:  # a plugin may fail in any way
        said = f"rlcore_old_keys: {format_exception(error, error.__traceback__)}"
        raise errors.PluginError(said, hint="rlcore plugins") from error
    for layer in layers:
        for (path, old), new in OLD_VALUES.items():
            if schema_tree.find(layer, path) in (old, format_value(old)):
                warn(
                    f"{path}={format_value(old)} is an old value; {path}={format_value(new)} is "
                    f"taken"
                )
                take(layer, path)
                put(layer, path, new)


def take(values: Values, path: str) -> tuple[bool, Any]:
    """Remove the value at a dotted path, and sections that are empty then.

    Returns:
        Whether there was a value, and the value or None.
    """
    head, _, rest = path.partition(".")
    if head not in values or (rest and not isinstance(values[head], dict)):
        return False, None
    if not rest:
        return True, values.pop(head)
    found, value = take(values[head], rest)
    if found and not values[head]:
        del values[head]
    return found, value


def put(values: Values, path: str, value: Any) -> None:
    """Set the value at a dotted path, unless it has one already.

    Two mappings are merged; entries that are already there win.
    """
    head, _, rest = path.partition(".")
    if rest:
        put(values.setdefault(head, {}), rest, value)
    elif isinstance(value, dict) and isinstance(values.get(head), dict):
        values[head] = {**value, **values[head]}
    else:
        values.setdefault(head, value)
