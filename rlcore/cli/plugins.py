"""Run `rlcore plugins [NAME] [--json]`: list what the installed plugins provide, BAD ones included;
with a name, its rows, and the cost of a recipe of that name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from rlcore.cli.parser import Parser
from rlcore.plugins import extras
from rlcore.plugins.registry import PluginRow, load_component, load_plugins

COLUMNS = ("kind", "name", "distribution", "version", "status")


def main(arguments: Sequence[str]) -> int:
    """Print the table, or a JSON list of objects; exit code 1 if one is BAD."""
    parser = Parser(prog="rlcore plugins", description=__doc__)
    parser.add_argument("name", nargs="?", metavar="NAME", help="of a component or a recipe")
    parser.add_argument("--json", action="store_true", help="a JSON list of objects")
    options = parser.parse_args(arguments)
    registry = load_plugins()
    installed = registry.rows()
    if "marked_rows" in registry.names("function"):
        installed = load_component("function", "marked_rows")(registry, installed)
    rows = [row for row in installed if options.name in (None, row.name)]
    if not rows:
        return _show_recipe(options.name, as_json=options.json)
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        print(table(rows))
        extra = extras.not_installed({row.distribution for row in installed})
        if extra and options.name is None:
            print(f"\nnot installed ({extras.install_command(['NAME,...'])}): {', '.join(extra)}")
    return int(any(row.status == "BAD" for row in rows))


def _show_recipe(name: str, *, as_json: bool) -> int:
    """Print where a recipe is and what it costs.

    Raises:
        PluginError: neither a recipe nor a component has that name.
        ConfigError: its costs are malformed.
    """
    from rlcore.config.catalog import EXPERIMENT, Catalog

    catalog = Catalog(load_plugins())
    recipe, _ = catalog.recipe(name)
    if recipe is None:
        known = {*catalog.options(EXPERIMENT), *(row.name for row in catalog.registry.rows())}
        raise catalog.registry.not_found("component or recipe", name, known)
    cost = None
    if "cost_of" in catalog.registry.names("function"):
        cost = load_component("function", "cost_of")(catalog, recipe)
    if as_json:
        print(json.dumps([{"recipe": recipe, "cost": cost and asdict(cost)}], indent=2))
    else:
        lines = cost.lines() if cost else ["cost: not known"]
        print("\n  ".join([f"recipe {recipe}: {catalog.file(EXPERIMENT, recipe)}", *lines]))
    return 0


def table(rows: Sequence[PluginRow]) -> str:
    """Format rows in columns; the reason of a BAD one is below it."""
    cells = [COLUMNS, *(tuple(str(getattr(row, column)) for column in COLUMNS) for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(COLUMNS))]
    reasons = ["", *(row.reason for row in rows)]
    lines = []
    for line, reason in zip(cells, reasons, strict=True):
        lines.append(
            "  ".join(text.ljust(w) for text, w in zip(line, widths, strict=True)).rstrip()
        )
        if reason:
            lines.append(f"    {reason}")
    return "\n".join(lines)
