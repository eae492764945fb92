"""`rlcore plugins [NAME] [--json]`: what the installed plugins bring, and which of them are BAD; of
one name, its rows, and what a recipe of that name costs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from rlcore import extras
from rlcore.cli.parser import Parser
from rlcore.errors import ConfigError, did_you_mean
from rlcore.plugins import PluginRow, load_plugins

COLUMNS = ("kind", "name", "distribution", "version", "status")


def main(arguments: Sequence[str]) -> int:
    """Print the table, or a JSON list of objects; exit code 1 if one is BAD."""
    parser = Parser(prog="rlcore plugins", description=__doc__)
    parser.add_argument("name", nargs="?", metavar="NAME", help="of a component or a recipe")
    parser.add_argument("--json", action="store_true", help="a JSON list of objects")
    options = parser.parse_args(arguments)
    rows = load_plugins().rows()
    chosen = [row for row in rows if options.name in (None, row.name)]
    if not chosen:
        return _show_recipe(options.name, [row.name for row in rows], as_json=options.json)
    if options.json:
        print(json.dumps([asdict(row) for row in chosen], indent=2))
    else:
        print(table(chosen))
        extra = extras.not_installed({row.distribution for row in rows})
        if extra and options.name is None:
            print(f'\nnot installed (pip install "rlcore[NAME,...]"): {", ".join(extra)}')
    return int(any(row.status == "BAD" for row in chosen))


def _show_recipe(name: str, components: Sequence[str], *, as_json: bool) -> int:
    """Print where a recipe is and what it costs.

    Raises:
        ConfigError: there is none of that name, nor a component; or its costs are malformed.
    """
    from rlcore.config.catalog import EXPERIMENT, Catalog
    from rlcore.config.costs import cost_of

    catalog = Catalog(load_plugins())
    recipe, _ = catalog.recipe(name)
    if recipe is None:
        known = [*components, *catalog.options(EXPERIMENT)]
        raise ConfigError(
            f"no component and no recipe has the name {name!r}.{did_you_mean(name, known)}",
            hint="rlcore plugins lists the components, rlcore train --help experiment the recipes",
        )
    file, cost = catalog.file(EXPERIMENT, recipe), cost_of(catalog, recipe)
    if as_json:
        costs = asdict(cost) if cost else None
        print(json.dumps([{"kind": "recipe", "name": recipe, "cost": costs}], indent=2))
    else:
        print(f"recipe {recipe}: {file}")
        print("\n".join(f"  {line}" for line in (cost.lines() if cost else ["cost: not known"])))
    return 0


def table(rows: Sequence[PluginRow]) -> str:
    """Rows in columns; the reason of a BAD one stands below it."""
    cells = [COLUMNS, *(tuple(str(vars(row)[column]) for column in COLUMNS) for row in rows)]
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
