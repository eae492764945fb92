"""Reinforcement against imitation on a set of tasks: plays what is missing, and writes the page.

    python benchmarks/learning.py SET [ARM ...] [--seeds 0 1] [--demonstrations N] [--episodes N]
    python benchmarks/learning.py --experts      time limits and tasks of all sets
    python benchmarks/learning.py SET --page     plays nothing

Each seed has a start, supervised training on the demonstrations, from which all arms and controls
begin. As many runs as this process may use cores are played at once. Kill it at any moment: called
again, it keeps what is finished and goes on with the rest. A cell is played again when the code has
changed since (:data:`parts.learning.cells.CODE`).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from parts.learning.cells import CHANGED, CONTROLS, Records, code_commit
from parts.learning.index import with_row
from parts.learning.page import Sheet, page
from parts.learning.picture import picture
from parts.learning.runs import Arm, Table
from parts.learning.schedule import Job, play
from parts.learning.sets import ROOT, listed, read_experts

from rlcore.config.catalog import Catalog
from rlcore.files.atomic import write_text
from rlcore.plugins.registry import load_plugins

RESULTS = ROOT / "docs/results"
RUNS = ROOT / "logs/learning"
CELLS = "learning"
"""Folder of the cells and pictures beside the pages."""


def main() -> int:
    """Parse the command line, play and write; return the exit code."""
    sets, entries = listed()
    arms = {name: Arm(**each) for name, each in entries.items()}
    listing = ", ".join([*CONTROLS, *arms])
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("set", nargs="?", choices=[*sets])
    parser.add_argument("arms", nargs="*", metavar="ARM", help=f"{listing}; none: all")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--demonstrations", type=int, help="of each task; default: as planned")
    parser.add_argument("--episodes", type=int, help="of training, of each arm; default: planned")
    parser.add_argument("--page", action="store_true", help="write the page, play nothing")
    parser.add_argument("--experts", action="store_true", help="play the experts, no policy")
    parser.add_argument(
        "--runs",
        type=Path,
        default=RUNS,
        help="folder of the runs; those of a trial lie in RESULTS/runs",
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of pages and cells")
    parser.add_argument(
        "--override",
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
        help="of all runs, for a trial; keys of algorithm: of the arms",
    )
    options = parser.parse_args()
    if options.experts:
        from parts.learning.experts import derive

        derive()
        return 0
    if options.set is None:
        parser.error(f"name a set: {', '.join(sets)}")
    planned = sets[options.set]
    arms = {name: arm for name, arm in arms.items() if name in planned.arms}
    listing = ", ".join([*CONTROLS, *arms])
    if unknown := {*options.arms} - {*CONTROLS, *arms}:
        parser.error(
            f"{options.set} has no arm {', '.join(sorted(unknown))} (choose from {listing})"
        )
    if options.override and options.results == RESULTS:
        parser.error("--override needs --results FOLDER: it is a trial, not what the pages show")

    tasks, experts = read_experts()
    if options.set not in tasks:
        parser.error(f"{options.set} has no experts yet: python benchmarks/learning.py --experts")
    records = Records(options.results / CELLS, code_commit())
    if records.commit.endswith(CHANGED) and not (options.override or options.page):
        parser.error(
            "commit the changed files first (git status): a cell names the commit that played it; "
            "for a trial: --override KEY=VALUE --results FOLDER"
        )
    # a start trained with overrides must never be taken for the start of other calls
    runs = options.results / "runs" if options.override else options.runs
    catalog = Catalog(load_plugins())
    installed = {group: catalog.options(group) for group in ("algorithm", "model")}
    missing = {name: arm.missing(installed) for name, arm in arms.items()}

    def write_page(job: Job | None = None) -> None:
        sheet = Sheet.of(options.set, planned, tasks[options.set], experts, missing, records)
        options.results.mkdir(parents=True, exist_ok=True)
        write_text(options.results / f"learning-{options.set}.md", page(sheet))
        index = options.results / "README.md"
        if index.is_file():  # a trial's folder has none
            write_text(index, with_row(index.read_text(), sheet))
        drawing = picture(sheet)
        if drawing is not None:
            write_text(options.results / CELLS / f"{options.set}.svg", drawing)

    wanted = options.arms or [*CONTROLS, *arms]
    for name in wanted:
        if missing.get(name):
            print(f"{name}: not run, {missing[name]}")
    demonstrations, episodes = planned.tables[0]
    failed: list[Job] = []
    if not options.page:
        tables = [
            Table(
                name=options.set,
                tasks=tasks[options.set],
                seed=seed,
                demonstrations=options.demonstrations or demonstrations,
                episodes=options.episodes or episodes,
                arms={name: arm for name, arm in arms.items() if not missing[name]},
                folder=runs.absolute() / records.commit / options.set,
                overrides=options.override,
                recipe=planned.recipe,
            )
            for seed in options.seeds
        ]
        failed = play(tables, wanted, records, on_end=write_page)
    write_page()
    print(options.results / f"learning-{options.set}.md")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
