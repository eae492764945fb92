"""The page of a set: a sentence on its controls, tables of its cells, and a picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from parts.learning.cells import CONTROLS, DEMONSTRATIONS, START, Cell, Outcomes, Record, Records
from parts.learning.sets import SUFFIX, Expert, TaskSet
from rlcore.runs.statistics import Difference, SuccessRate, paired_difference, success_rate

PLANNED = ((1, 576), (5, 576), (1, 1152))
"""Demonstrations of each task and episodes of the tables, in the order in which they are played."""
SEEDS = (0, 1)
EASY = 0.9
"""Success of a control above which little is left to win, so that the first line says it."""


@dataclass(frozen=True)
class Sheet:
    """All that a set's page is made of.

    Attributes:
        name, role: of the set.
        tasks: the set.
        experts: results of the experts by task.
        arms: arm -> why it can't be played here; empty if it can.
        cells: the cells of one commit.
        commit: that commit; None: nothing was played.
        stale: cells that another commit has played.
    """

    name: str
    role: str
    tasks: TaskSet
    experts: Mapping[str, Expert]
    arms: Mapping[str, str]
    cells: Mapping[Cell, Record] = field(default_factory=dict)
    commit: str | None = None
    stale: frozenset[Cell] = frozenset()

    @classmethod
    def of(
        cls,
        name: str,
        role: str,
        tasks: TaskSet,
        experts: Mapping[str, Expert],
        arms: Mapping[str, str],
        records: Records,
    ) -> Sheet:
        """Collect a set's cells of the commit that was played last."""
        kept = dict(records.all(name))
        if not kept:
            return cls(name, role, tasks, experts, arms)
        commit = max(kept.values(), key=lambda record: record.ended).commit
        cells = {cell: record for cell, record in kept.items() if records.finished(cell, commit)}
        stale = frozenset(kept.keys() - cells.keys())
        return cls(name, role, tasks, experts, arms, cells, commit, stale)

    @property
    def tables(self) -> list[tuple[int, int]]:
        """Demonstrations and episodes of each table: the planned ones first."""
        played = {(cell.demonstrations, cell.episodes) for cell in self.cells if cell.episodes}
        return [*PLANNED, *sorted(played - {*PLANNED})]

    @property
    def seeds(self) -> list[int]:
        """Seeds of the tables."""
        return sorted({*SEEDS, *(cell.seed for cell in self.cells)})

    def cell(self, seed: int, demonstrations: int, episodes: int, run: str) -> Cell:
        """Return the cell of a run of this set."""
        return Cell(self.name, seed, demonstrations, 0 if run == START else episodes, run)

    def gains(self) -> dict[tuple[Cell, str], Difference]:
        """Return the paired difference of each arm's cell to each control of its own table."""
        found = {}
        for cell, control in product(self.cells, CONTROLS):
            other = self.cells.get(
                Cell(cell.set, cell.seed, cell.demonstrations, cell.episodes, control)
            )
            if cell.run in self.arms and other is not None:
                paired = difference(other, self.cells[cell])
                if paired is not None:
                    found[cell, control] = paired
        return found


def difference(before: Record, after: Record) -> Difference | None:
    """Return the paired difference of two cells; None if their evaluations had other protocols.

    A policy that draws nothing plays each start once: further passes would be the same.
    """
    if before.protocol != after.protocol:
        return None
    passes = max(len(each) for side in (before, after) for each in side.outcomes.values())
    return paired_difference(*(repeated(side.outcomes, passes) for side in (before, after)))


def repeated(outcomes: Outcomes, passes: int) -> Outcomes:
    """Return outcomes in which a start that was played once counts as so many equal passes."""
    return {start: [*each] * passes if len(each) == 1 else each for start, each in outcomes.items()}


def page(sheet: Sheet) -> str:
    """Return the page of a set as Markdown."""
    tables = [table(sheet, *each) for each in sheet.tables]
    drawn = any(record.curve for record in sheet.cells.values())
    return (
        "\n\n".join(
            [
                f"# Reinforcement against imitation: {sheet.name}",
                headline(sheet),
                HEAD.format(
                    role=ROLES[sheet.role],
                    command=f"python benchmarks/learning.py {sheet.name}",
                    measured="Nothing has been played yet."
                    if sheet.commit is None
                    else f"All figures are of {sheet.commit}.",
                ),
                tasks(sheet),
                *tables,
                *([PICTURE.format(name=sheet.name)] if drawn else []),
            ]
        )
        + "\n"
    )


def headline(sheet: Sheet) -> str:
    """Return the first line: where a control wins, where an arm does, and how much is not run."""
    gains = sheet.gains()
    named: dict[str, list[str]] = {"lost": [], "won": [], "even": []}
    for (cell, control), gain in sorted(gains.items()):
        kind = "lost" if gain.hi < 0 else "won" if gain.lo > 0 else "even"
        solved = pooled([sheet.cells[replace(cell, run=control)]]).rate
        easy = f", which solves {solved:.3f} itself" if solved > EASY else ""
        named[kind].append(f"{describe(cell)} ({control}{easy})")
    demonstrations, episodes = PLANNED[0]
    first = [
        sheet.cell(seed, demonstrations, episodes, run)
        for seed in SEEDS
        for run in (START, *CONTROLS, *sheet.arms)
    ]
    absent = sum(cell not in sheet.cells for cell in first)
    rest = f"Of the {len(first)} cells of the first table {absent} are not run."
    if not gains:
        return f"**Nothing is shown yet:** no arm has been played beside a control. {rest}"
    return (
        f"**A control wins** against {listed(named['lost'])}; an arm wins against its control in "
        f"{listed(named['won'])}; neither in {listed(named['even'])} (95% intervals of paired "
        f"differences). {rest}"
    )


def describe(cell: Cell) -> str:
    """Return an arm's cell in words."""
    return f"{cell.run} of seed {cell.seed}, {conditions(cell.demonstrations, cell.episodes)}"


def conditions(demonstrations: int, episodes: int) -> str:
    """Return in words how many demonstrations and episodes a table's cells have."""
    word = "demonstration" if demonstrations == 1 else "demonstrations"
    return f"{demonstrations} {word} a task, {episodes:,} episodes"


def listed(names: Sequence[str]) -> str:
    """Return names in a sentence."""
    return "; ".join(names) or "none"


def tasks(sheet: Sheet) -> str:
    """Return the table of the tasks, their experts and what was replaced."""
    rows = [
        f"| {task} | {expert.solved} of {expert.starts} | {expert.steps} |"
        for task in sheet.tasks.tasks
        for expert in [sheet.experts[task]]
    ]
    replaced = [
        f"{new} stands in the place of {old}, whose expert solves {sheet.experts[old].solved} of "
        f"{sheet.experts[old].starts} training starts: it is the first task in alphabetical order "
        "that stood in no set, recipe or page and that its expert solves."
        for old, new in sheet.tasks.replaced.items()
    ]
    limit = f"The time limit is {sheet.tasks.limit} steps: the largest of the last column / 0.6."
    return "\n".join(
        [
            "## Tasks",
            "",
            "| task | training starts that its expert solves | steps within which it solves 95% |",
            "|---|---|---|",
            *rows,
            "",
            " ".join([limit, *replaced]),
        ]
    )


def table(sheet: Sheet, demonstrations: int, episodes: int) -> str:
    """Return the table of all seeds with so many demonstrations and episodes."""
    heading = f"## {conditions(demonstrations, episodes)}"
    cells = [
        sheet.cell(seed, demonstrations, episodes, run)
        for seed in sheet.seeds
        for run in (START, *CONTROLS, *sheet.arms)
    ]
    if not any(cell.episodes for cell in cells if cell in sheet.cells):  # more than a start
        return f"{heading}\n\nnot run"
    names = [task.removesuffix(SUFFIX) for task in sheet.tasks.tasks]
    columns = [*COLUMNS, *names, "episodes", "samples", "seconds"]
    gains = sheet.gains()
    rows = [row(sheet, cell, gains) for cell in cells]
    lines = [columns, ["---"] * len(columns), *rows]
    return f"{heading}\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines)


def row(sheet: Sheet, cell: Cell, gains: Mapping[tuple[Cell, str], Difference]) -> list[str]:
    """Return the entries of a cell's row."""
    seed = str(cell.seed)
    record = sheet.cells.get(cell)
    if record is None:
        reason = sheet.arms.get(cell.run) or (
            "played by another commit or from another start" if cell in sheet.stale else ""
        )
        said = f"not run{f': {reason}' if reason else ''}"
        return [seed, cell.run, said, *[""] * (len(COLUMNS) + len(sheet.tasks.tasks))]
    start = sheet.cells.get(cell.start)
    to_start = "" if cell.run == START or start is None else gain(difference(start, record))
    to_controls = [
        gain(gains[cell, control]) if (cell, control) in gains else "" for control in CONTROLS
    ]
    return [
        seed,
        cell.run,
        rate(success_rate([*record.outcomes.values()])),
        to_start,
        *to_controls,
        *(kinds(record.outcomes, task) for task in sheet.tasks.tasks),
        str(record.episodes or ""),
        f"{record.samples:,}",
        f"{record.seconds:.0f}",
    ]


def kinds(outcomes: Outcomes, task: str) -> str:
    """Return how many starts of a task never, sometimes and always succeed."""
    found = Counter(
        "never" if not any(passes) else "always" if all(passes) else "sometimes"
        for (name, _), passes in outcomes.items()
        if name == task
    )
    return " / ".join(str(found[kind]) for kind in ("never", "sometimes", "always"))


def rate(figures: SuccessRate) -> str:
    """Return a success rate with its interval."""
    return f"{figures.rate:.3f} [{figures.lo:.3f}, {figures.hi:.3f}]"


def gain(figures: Difference | None) -> str:
    """Return a difference with its interval."""
    if figures is None:
        return "another protocol"
    return f"{figures.mean:+.3f} [{figures.lo:+.3f}, {figures.hi:+.3f}]"


def pooled(records: Iterable[Record]) -> SuccessRate:
    """Return the success rate over the starts of several seeds."""
    return success_rate([each for record in records for each in record.outcomes.values()])


COLUMNS = ("seed", "run", "success", f"to its {START}", *(f"to {name}" for name in CONTROLS))
ROLES = {
    "chosen on": "Settings were chosen on this set.",
    "shown on": "Nothing was chosen on this set: it was fixed before, and is played with what was "
    "chosen on the others.",
}
HEAD = f"""{{measured}} {{role}}

```
{{command}}
```

`start` is supervised training on the demonstrations,
[to its plateau](../evaluation.md#a-start-at-its-plateau). Every arm begins from its weights (one
with another model trains a start of its own), and so do both controls:
`{DEMONSTRATIONS}` goes on with the demonstrations for as many samples as
[the work](../evaluation.md#controls) of the arm with most of it, `{CONTROLS[1]}` imitates the
demonstrations and the successful training episodes of one arm (`control: true` in
`benchmarks/sets.yaml`), for the work of that arm. All play the same held-out starts with the same
protocol, twice each with other noise. 95% intervals: Wilson for rates, Newcombe's method 10 for
paired differences. An arm whose evaluated actions draw nothing plays each start once. A task's
column counts its starts that never / sometimes / always succeed.
`samples` are those of an arm's work, or of supervised training. Seconds are wall time of training,
one core each. The settings are those of `benchmarks/experiment/learning.yaml` and
`benchmarks/sets.yaml`, the same for all sets; [tasks](#tasks) says what is derived."""
PICTURE = """![success against episodes](learning/{name}.svg)

Lines: success in training, which explores, update by update, over all seeds; the band is its Wilson
interval. Dots: held-out success of the start, at 0, and of controls and arms at the end."""
