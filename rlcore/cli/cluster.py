"""`rlcore cluster [EXPERIMENT] [overrides]`: the machines of a run, and what it would take of them.

Without a choice of components only the machines are shown.
"""

from __future__ import annotations

from collections.abc import Sequence

from rlcore.checks import announce, check
from rlcore.cli.request import parse_request, print_help
from rlcore.cli.verbs import placement_table
from rlcore.config.compose import compose
from rlcore.placement import find_inventory, joins, make_plan, render_inventory
from rlcore.plugins import load_plugins


def main(arguments: Sequence[str]) -> int:
    """Print both; starts nothing, and joins a cluster only to look at it."""
    request = parse_request("cluster", arguments)
    if request.help:
        print_help("cluster", request)
        return 0
    config = compose(request.overrides, config_dirs=request.config_dirs, require=())
    inventory = find_inventory(config.cluster, only_look=True)
    print(render_inventory(inventory))
    if config.cluster.inventory is None and not joins(config.cluster):
        print("this machine alone; cluster.address=auto shows the Ray cluster that it is part of")
    if config.env.train.env_type:
        registry = load_plugins()
        plan = make_plan(
            config.cluster, inventory, registry, divides=config.divides, offloads=config.offloads
        )
        facts = check(config, registry, plan)
        announce(facts)
        print()
        print(placement_table(facts))
    return 0
