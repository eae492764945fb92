"""`rlcore doctor [EXPERIMENT] [overrides]`: what this machine lacks, and what mends it.

Without a choice all plugins are asked; with one, those of its components.
"""

from __future__ import annotations

from collections.abc import Sequence

from rlcore.cli.main import VERBS
from rlcore.cli.request import parse_request, print_help
from rlcore.plugins import load_plugins


def main(arguments: Sequence[str]) -> int:
    """Print the findings; exit code 1 if something is missing or a plugin is BAD."""
    request = parse_request("doctor", arguments)
    if request.help:
        print_help("doctor", VERBS["doctor"], request)
        return 0
    registry = load_plugins()
    config, plugins = None, None
    if request.overrides:
        from rlcore.cli.verbs import chosen_plugins
        from rlcore.config.compose import compose

        config = compose(request.overrides, config_dirs=request.config_dirs, require=())
        plugins = chosen_plugins(config, registry)
    results = registry.doctor(config, plugins)
    bad = [row for row in registry.rows() if row.status == "BAD"]
    for row in bad:
        print(f"BAD      plugin {row.name} ({row.distribution} {row.version}): {row.reason}")
    for item in results:
        print(f"{item['status']:<8} {item['name']}: {item['detail']}")
        if item["status"] == "missing" and item["fix"]:
            print(f"         mend it: {item['fix']}")
    missing = [item for item in results if item["status"] == "missing"]
    if not results and not bad:
        print("nothing to check")
    return 1 if missing or bad else 0
