"""Find the machines that a run is planned for: those its backend knows, or described ones that do
not exist here. Light."""

from __future__ import annotations

from rlcore.config.schema import ClusterConfig
from rlcore.contracts.errors import PlacementError, PluginError
from rlcore.contracts.specs import ComponentSpec
from rlcore.placement.inventory import Inventory
from rlcore.plugins.extras import offered
from rlcore.plugins.import_target import load_target
from rlcore.plugins.registry import load_plugins

KEY = "cluster.inventory"


def find_inventory(cluster: ClusterConfig, *, only_look: bool = False) -> Inventory:
    """The machines of a run, in rank order.

    Args:
        only_look: nothing is going to be started (a dry run): machines that are only described
            will do, and nodes that have not joined are not waited for.

    Raises:
        PlacementError: nodes that don't join, or differ; described machines where a run is meant.
        PluginError: there is no such backend.
        WorkerError: no cluster answers.
    """
    backend = require_backend(cluster)
    if cluster.inventory is not None:
        if not only_look:
            raise PlacementError(
                f"{KEY} describes machines to plan for, and nothing can run on them, got "
                f"{cluster.inventory!r}",
                hint="add --dry-run, or leave it out",
            )
        return described(cluster.inventory)
    if backend.spec is None:
        return Inventory.local()
    found: Inventory = load_target(backend.spec)(cluster, only_look=only_look)
    return found


def described(text: str) -> Inventory:
    """The machines that a text describes, as the hook `rlcore_machines` reads it.

    Raises:
        PlacementError: another form, or a file that can't be read.
        PluginError: no plugin reads it.
    """
    for found in load_plugins().ask("rlcore_machines", text=text):
        inventory: Inventory = found
        return inventory
    raise PluginError(
        f"{KEY} is read by a plugin that is not loaded", hint=offered("command", "plan", ())
    )


def require_backend(cluster: ClusterConfig) -> ComponentSpec:
    """The backend of a run, as it is registered.

    Raises:
        PluginError: there is none of that name; says what installs it, and what needs nothing.
    """
    try:
        return load_plugins().get("backend", cluster.backend).spec
    except PluginError as error:
        instead = "cluster.backend=local needs no plugin: all workers in one process"
        hint = f"{error.hint}; {instead}" if error.hint else instead
        raise type(error)(error.message, hint=hint) from None
