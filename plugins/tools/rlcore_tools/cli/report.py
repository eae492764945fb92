"""`rlcore report RUN [RUN ...]`: write a run's report again, or compare several runs.

The folder of a sweep stands for the runs in it.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from rlcore.cli.parser import Parser
from rlcore.contracts.errors import ConfigError

COMPARISON = Path("report.html")


def main(arguments: Sequence[str]) -> int:
    """Write the report and print where it is; of several runs, also whether their metrics are the
    same.

    Raises:
        UserError: a folder holds no run or a damaged one, or the file can't be written.
    """
    options = _parser().parse_args(arguments)
    from rlcore.run_folder.folder import RunFolder, runs_in
    from rlcore_tools.report import compare_metrics, write_comparison, write_report

    named = [path for run in options.runs for path in runs_in(run) or [run]]
    folders = [RunFolder.open(run) for run in named]
    twice = {folder.path for folder in folders if folders.count(folder) > 1}
    if twice:
        raise ConfigError(f"{min(twice)} is named more than once", hint="rlcore report RUN RUN ...")
    if len(folders) == 1:
        print(write_report(folders[0], options.output))
    else:
        print(write_comparison(folders, options.output or COMPARISON))
        for folder in folders[1:]:
            print(compare_metrics(folders[0], folder))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="rlcore report", description=__doc__)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="folder of a run, or of a sweep")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="the file; without it report.html, in the folder of the run where there is one, in "
        "the current folder where several are compared",
    )
    return parser
