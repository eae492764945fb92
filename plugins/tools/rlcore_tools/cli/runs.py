"""`rlcore runs ls | show | diff | best`: look over the runs of a folder, of a sweep or of many.

rlcore runs ls [FOLDER] [--where 'algorithm.gamma>0.95'] [--sort after]    a line a run
rlcore runs show RUN                what became of it, and what comes next
rlcore runs diff RUN RUN            configuration, versions, results
rlcore runs best [FOLDER]           the best setting over its seeds, and the undecided
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rlcore.cli.parser import Parser
from rlcore.contracts.errors import ConfigError, choices_message

FOLDER = "logs"  # default folder of runs


def main(arguments: Sequence[str]) -> int:
    """Run the subcommand that the first word names, and return its exit code.

    Raises:
        UserError: the subcommand, a folder, run or key does not exist, or a condition is invalid.
    """
    actions = {"ls": _ls, "show": _show, "diff": _diff, "best": _best}
    word = arguments[0] if arguments else "--help"
    if word in ("-h", "--help"):
        print(f"{__doc__}\nrlcore runs ls --help: its options")
        return 0
    if word not in actions:
        raise ConfigError(
            f"rlcore runs can't {word!r}{choices_message(word, actions)}", hint="rlcore runs --help"
        )
    return actions[word](arguments[1:])


def _ls(arguments: Sequence[str]) -> int:
    """List runs, with one line per run."""
    options = _parsed(_many("ls", "list the runs of a folder, and of the folders in it"), arguments)
    from rlcore_tools.runs.conditions import Condition, chosen, ordered
    from rlcore_tools.runs.folders import runs_below
    from rlcore_tools.runs.row import COLUMNS
    from rlcore_tools.runs.table import table_of

    conditions = [Condition.read(text) for text in options.where]
    rows = chosen(runs_below(options.folder), conditions)
    if options.sort is not None:
        rows = ordered(rows, options.sort)
    keys = [condition.key for condition in conditions]
    keys += [] if options.sort is None else [options.sort.removeprefix("-")]
    shown = [key for key in dict.fromkeys(keys) if key not in COLUMNS]
    return _said(
        options,
        lambda: [{**row.as_values(), **{k: row.value(k) for k in shown}} for row in rows],
        lambda: table_of(rows, shown).splitlines(),
    )


def _show(arguments: Sequence[str]) -> int:
    """Describe one run."""
    options = _parsed(_few("show", "RUN", 1), arguments)
    from rlcore.run_folder.folder import RunFolder
    from rlcore_tools.runs import one

    folder = RunFolder.open(options.runs[0]).path
    return _said(options, lambda: one.values_of(folder), lambda: one.lines_of(folder))


def _diff(arguments: Sequence[str]) -> int:
    """Compare two runs."""
    options = _parsed(_few("diff", "RUN", 2), arguments)
    from rlcore.run_folder.folder import RunFolder
    from rlcore_tools.runs.differing import Differing

    first, other = (RunFolder.open(run).path for run in options.runs)
    found = Differing.between(first, other)
    return _said(options, found.as_values, found.lines)


def _best(arguments: Sequence[str]) -> int:
    """Rank settings over their seeds."""
    options = _parsed(
        _many("best", "the best setting over its seeds, and the undecided"), arguments
    )
    from rlcore_tools.runs.conditions import Condition, chosen
    from rlcore_tools.runs.folders import runs_below
    from rlcore_tools.runs.settings import ranked
    from rlcore_tools.runs.standing import lines_of, values_of

    rows = chosen(runs_below(options.folder), [Condition.read(text) for text in options.where])
    ranking = ranked(rows)
    return _said(options, lambda: values_of(ranking), lambda: lines_of(ranking, options.folder))


def _many(action: str, about: str) -> argparse.ArgumentParser:
    parser = Parser(prog=f"rlcore runs {action}", description=about)
    parser.add_argument(
        "folder", nargs="?", type=Path, default=Path(FOLDER), metavar="FOLDER",
        help="of runs, of a sweep, or of both; default: logs",
    )  # fmt: skip
    parser.add_argument(
        "--where", action="append", default=[], metavar="'KEY>VALUE'",
        help="only runs that are so; = != > >= < <=, KEY is a column or a key of the "
        "configuration; may be repeated",
    )  # fmt: skip
    if action == "ls":
        parser.add_argument(
            "--sort", metavar="KEY", help="by a column or key; from high to low: --sort=-KEY"
        )
    return parser


def _few(action: str, name: str, count: int) -> argparse.ArgumentParser:
    about = "what became of a run" if count == 1 else "what differs between two runs"
    parser = Parser(prog=f"rlcore runs {action}", description=about)
    parser.add_argument("runs", nargs=count, metavar=name, help="folder of a run")
    return parser


def _parsed(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> argparse.Namespace:
    parser.add_argument("--json", action="store_true", help="the same for programs")
    return parser.parse_args(arguments)


def _said(
    options: argparse.Namespace, values: Callable[[], Any], lines: Callable[[], Sequence[str]]
) -> int:
    """Print a result as JSON or as lines of text, and return the exit code 0.

    Args:
        options: parsed arguments; `json` selects the form.
        values: returns the result for JSON.
        lines: returns the result as lines of text.
    """
    if options.json:
        print(json.dumps(values(), indent=1, default=str))
    else:
        print("\n".join(lines()))
    return 0
