"""Run `rlcore help`, or `rlcore --help`: list the commands of core and of the plugins."""

from __future__ import annotations

from collections.abc import Sequence
from shutil import get_terminal_size
from textwrap import fill

from rlcore.plugins.registry import load_plugins


def main(arguments: Sequence[str]) -> int:
    """Print all commands with their summaries.

    :mod:`rlcore.cli.main` turns `rlcore help COMMAND` into `rlcore COMMAND --help`, so this
    function gets no command.
    """
    summaries = {c.spec.name: c.spec.summary for c in load_plugins().components("command")}
    width = max(10, *(len(name) + 2 for name in summaries))
    print("rlcore: fine-tune vision-language-action policies with reinforcement learning\n")
    print("usage: rlcore COMMAND ...")
    columns = get_terminal_size((1000, 0)).columns
    for name, summary in summaries.items():
        head = f"  {name:<{width}}"
        indent = " " * (width + 2)
        print(fill(summary, columns, initial_indent=head, subsequent_indent=indent).rstrip())
    print("\nrlcore COMMAND --help says more; rlcore --version prints the version.")
    return 0
