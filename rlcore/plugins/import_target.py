"""Import the object that a string `"module:attr"` names. Light.

A component's factory is stored as a string until it is needed, so that listing plugins imports
nothing heavy. Simulator processes, which have no plugin manager, load simulators this way too.
"""

from __future__ import annotations

import importlib
from typing import Any

from rlcore.contracts.errors import PluginError, UserError, did_you_mean
from rlcore.plugins.system_libraries import install_hint
from rlcore.utils.text import format_exception


def load_target(target: str) -> Any:
    """Import the object that `"module:attr"` names.

    Raises:
        PluginError: the module can't be imported, or has no such attribute.
        UserError: raised by the module itself; passed on unchanged.
    """
    module_name, _, attribute = target.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise PluginError(
            f"{target} can't be loaded: {error}",
            hint=install_hint(str(error)) or "rlcore plugins; rlcore doctor",
        ) from error
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        raise PluginError(
            f"{target} can't be loaded: {format_exception(error, error.__traceback__)}",
            hint="this is a bug in the plugin; rlcore plugins shows whose it is",
        ) from error
    if attribute not in vars(module):
        raise PluginError(
            f"{target} can't be loaded: {module_name} has no {attribute!r}."
            f"{did_you_mean(attribute, vars(module))}"
        )
    return vars(module)[attribute]
