"""Translate keys of other systems by plugins, and change nested values for that.

Keys that differ from rlcore's only in case are not handled here: :mod:`rlcore.config.bind` corrects
them wherever they occur.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlcore.contracts.errors import PluginError, UserError
from rlcore.utils.text import format_exception

if TYPE_CHECKING:
    from rlcore.config.schema import RunConfig
    from rlcore.plugins.registry import Registry

Values = dict[str, Any]


def translate_foreign_keys(
    layers: list[Values], registry: Registry, config: RunConfig | None
) -> None:
    """Let the plugins translate keys of other systems, in place.

    Args:
        layers: mappings of nested values that are not bound to the schema yet.
        registry: the plugins with the hook `rlcore_translate_keys`.
        config: the defaults of the chosen components; None if they are not known.

    Raises:
        UserError: a key whose meaning would be lost.
        PluginError: the hook of a plugin fails.
    """
    try:
        registry.manager.hook.rlcore_translate_keys(layers=layers, config=config)
    except UserError:
        raise
    except Exception as error:  # a plugin may fail in any way
        description = format_exception(error, error.__traceback__)
        raise PluginError(f"rlcore_translate_keys: {description}", hint="rlcore plugins") from error


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
    is_set, value = take(values[head], rest)
    if is_set and not values[head]:
        del values[head]
    return is_set, value


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
