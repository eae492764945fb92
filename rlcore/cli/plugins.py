"""Run `rlcore plugins [NAME] [--json]`: list the components of installed plugins, also BAD ones,
presets and recipes; with a name, show all details of that one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from rlcore.checks.plugin_files import checked_rows
from rlcore.cli.listing import about
from rlcore.cli.parser import Parser
from rlcore.plugins import extras
from rlcore.plugins.registry import PluginRow, load_plugins

COLUMNS = ("kind", "name", "distribution", "version", "status")


def main(arguments: Sequence[str]) -> int:
    """Print the rows as a table or as a JSON list, and return the exit code: 1 if one is BAD."""
    parser = Parser(prog="rlcore plugins", description=__doc__)
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="of a component, a preset or a recipe"
    )
    parser.add_argument("--json", action="store_true", help="a JSON list of objects")
    options = parser.parse_args(arguments)
    registry = load_plugins()
    installed = checked_rows(registry, registry.rows())
    name = options.name
    as_json = options.json
    rows = [row for row in installed if name in (None, row.name)]
    details = about(registry, name, rows, as_json=as_json)
    if not rows and not details:
        raise registry.not_found("component or recipe", name, [row.name for row in installed])
    if as_json:
        print(details or json.dumps([asdict(row) for row in rows], indent=2))
    else:
        print(*([table(rows)] if rows else []), *([details] if details else []), sep="\n")
        extra = extras.not_installed({row.distribution for row in installed})
        if extra and name is None:
            print(f"\nnot installed ({extras.install_command(['NAME,...'])}): {', '.join(extra)}")
    return int(any(row.status == "BAD" for row in rows))


def table(rows: Sequence[PluginRow]) -> str:
    """Return the rows as a table under a header; a row's reason is on the line below it."""
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
