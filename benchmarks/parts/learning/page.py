"""The page of a set: a sentence on its controls, tables of its cells, and a picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from parts.learning.cells import CONTROLS, START, Cell, Outcomes, Record, Records
from parts.learning.sets import IMITATED, SUFFIX, Expert, Planned, TaskSet, is_file
from rlcore.runs.statistics import Difference, SuccessRate, paired_difference, success_rate

SEEDS = (0, 1)
EASY = 0.9
"""Success of a control above which little is left to win, so that the first line says it."""


@dataclass(frozen=True)
class Sheet:
    """All that a set's page is made of.

    Attributes:
        name: name of the set.
        planned: what sets.yaml says of it. Its tables come first, in its order.
        tasks: the set.
        experts: results of the experts by task.
        arms: arm -> why it can't be played here; empty if it can.
        cells: the cells of one commit.
        commit: that commit; None: nothing was played.
        stale: cells that another commit has played.
    """

    name: str
    planned: Planned
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
        planned: Planned,
        tasks: TaskSet,
        experts: Mapping[str, Expert],
        arms: Mapping[str, str],
        records: Records,
    ) -> Sheet:
        """Collect a set's cells of the commit that was played last."""
        kept = dict(records.all(name))
        if not kept:
            return cls(name, planned, tasks, experts, arms)
        commit = max(kept.values(), key=lambda record: record.ended).commit
        cells = {cell: record for cell, record in kept.items() if records.finished(cell, commit)}
        stale = frozenset(kept.keys() - cells.keys())
        return cls(name, planned, tasks, experts, arms, cells, commit, stale)

    @property
    def tables(self) -> list[tuple[int, int]]:
        """Demonstrations and episodes of each table: the planned ones first."""
        played = {(cell.demonstrations, cell.episodes) for cell in self.cells if cell.episodes}
        return [*self.planned.tables, *sorted(played - {*self.planned.tables})]

    @property
    def seeds(self) -> list[int]:
        """Seeds of the tables."""
        return sorted({*SEEDS, *(cell.seed for cell in self.cells)})

    def cell(self, seed: int, demonstrations: int, episodes: int, run: str) -> Cell:
        """Return the cell of a run of this set."""
        return Cell(self.name, seed, demonstrations, 0 if run == START else episodes, run)

    def gains(self) -> dict[tuple[Cell, str], Difference]:
        """Return the paired difference of each arm's cell to each control of its own table.

        An arm with another model has none: the controls imitate with the start's model.
        """
        found = {}
        for cell, control in product(self.cells, CONTROLS):
            record = self.cells[cell]
            other = self.cells.get(replace(cell, run=control))
            if cell.run in self.arms and other is not None and not record.own_start:
                paired = difference([(other, record)])
                if paired is not None:
                    found[cell, control] = paired
        return found

    def gains_over_seeds(self) -> dict[tuple[int, int, str, str], tuple[list[int], Difference]]:
        """Return the seeds and the paired difference of each arm to each control over them, by
        demonstrations, episodes, arm and control."""
        seeds: dict[tuple[int, int, str, str], list[int]] = {}
        for cell, control in sorted(self.gains()):
            key = (cell.demonstrations, cell.episodes, cell.run, control)
            seeds.setdefault(key, []).append(cell.seed)
        found = {}
        for key, played in seeds.items():
            paired = difference([*zip(*self.pair(key, played), strict=True)])
            if paired is not None:
                found[key] = played, paired
        return found

    def pair(
        self, key: tuple[int, int, str, str], seeds: Sequence[int]
    ) -> tuple[list[Record], list[Record]]:
        """Return the records of a control and of an arm, one for each seed."""
        demonstrations, episodes, arm, control = key
        controls, arms = (
            [self.cells[self.cell(seed, demonstrations, episodes, run)] for seed in seeds]
            for run in (control, arm)
        )
        return controls, arms


def difference(pairs: Iterable[tuple[Record, Record]]) -> Difference | None:
    """Return the paired difference after minus before of each start, the mean over pairs of cells.

    A policy that draws nothing plays each start once: further passes would be the same.

    Args:
        pairs: a cell before and a cell after, for each seed.

    Returns:
        The difference; None if the evaluations of a pair had other protocols.
    """
    pairs = [*pairs]
    if any(before.protocol != after.protocol for before, after in pairs):
        return None
    passes = max(
        len(each) for pair in pairs for record in pair for each in record.outcomes.values()
    )
    sides: tuple[dict[tuple[str, int], list[bool]], ...] = ({}, {})
    for pair in pairs:
        for side, record in zip(sides, pair, strict=True):
            for start, each in repeated(record.outcomes, passes).items():
                side.setdefault(start, []).extend(each)
    return paired_difference(*sides)


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
                    role=" ".join(filter(None, [ROLES[sheet.planned.role], sheet.planned.note])),
                    command="\n".join(commands(sheet)),
                    measured=measured(sheet),
                ).lstrip(),
                tasks(sheet),
                *tables,
                *([PICTURE.format(name=sheet.name)] if drawn else []),
            ]
        )
        + "\n"
    )


def commands(sheet: Sheet) -> list[str]:
    """Return the commands that play the set and, where it is that of a recipe which everyone can
    run, the arm of that recipe with its start."""
    line = f"python benchmarks/learning.py {sheet.name}"
    recipe = sheet.planned.recipe
    if is_file(recipe):
        return [line]
    method = IMITATED.upper()
    return [line, f"rlcore train {recipe}    # start and {method} alone"]


def measured(sheet: Sheet) -> str:
    """Return which code and versions of packages the figures are of; empty if there are none."""
    if sheet.commit is None:
        return ""
    versions = sorted(
        {" ".join(each) for record in sheet.cells.values() for each in record.versions.items()}
    )
    return (
        f"All figures are of {', with '.join(filter(None, [sheet.commit, ', '.join(versions)]))}."
    )


def headline(sheet: Sheet) -> str:
    """Return the first line: where a control wins, where an arm does, and how much is not run."""
    gains = sheet.gains_over_seeds()
    own = f"imitation of {IMITATED}'s successes"
    names = ("more imitation of the demonstrations", own)
    controls = dict(zip(CONTROLS, names, strict=True))
    named: dict[str, list[str]] = {"lost": [], "won": [], "even": []}
    for key, (seeds, gain) in sorted(gains.items()):
        demonstrations, episodes, arm, control = key
        kind = "lost" if gain.hi < 0 else "won" if gain.lo > 0 else "even"
        better, worse = (controls[control], arm) if kind == "lost" else (arm, controls[control])
        solved = pooled(sheet.pair(key, seeds)[0]).rate
        easy = f"; the control solves {solved:.3f}" if solved > EASY else ""
        where = f"{conditions(demonstrations, episodes)}, {numbered(seeds)}{easy}"
        verb = "and" if kind == "even" else "beats"
        named[kind].append(f"{better} {verb} {worse} ({where})")
    demonstrations, episodes = sheet.planned.tables[0]
    first = [
        sheet.cell(seed, demonstrations, episodes, run)
        for seed in SEEDS
        for run in (START, *CONTROLS, *sheet.arms)
    ]
    absent = sum(cell not in sheet.cells for cell in first)
    rest = f"{absent} of the {len(first)} cells of the first table are not run."
    if not gains:
        return f"We have not run this comparison yet. {rest}"
    closing = ["Wins exclude zero from the 95% interval over seeds."]
    if fallen := below_start(sheet):
        closing.append(f"Below their starting policy: {'; '.join(fallen)}.")
    if absent:
        closing.append(rest)
    verdicts = [
        f"**{begin}:** {'; '.join(named[kind])}."
        for kind, begin in (
            ("lost", "Imitation wins"),
            ("won", "Reinforcement learning wins"),
            ("even", "No clear difference"),
        )
        if named[kind]
    ]
    return " ".join([*verdicts, *closing])


def below_start(sheet: Sheet) -> list[str]:
    """Return the runs that solve fewer starts than the policy that they began from, in words.

    The interval of a run's paired difference lies wholly below zero, for one seed.
    """
    fallen: dict[str, list[int]] = {}
    for cell, record in sorted(sheet.cells.items()):
        start = sheet.cells.get(cell.start)
        if cell.run == START or start is None or record.own_start:
            continue
        paired = difference([(start, record)])
        if paired is not None and paired.hi < 0:
            where = conditions(cell.demonstrations, cell.episodes)
            fallen.setdefault(f"{cell.run} ({where}", []).append(cell.seed)
    return [f"{run}, {numbered(seeds)})" for run, seeds in fallen.items()]


def numbered(seeds: Sequence[int]) -> str:
    """Return seeds in words."""
    return f"seed{'s' if len(seeds) > 1 else ''} {' and '.join(map(str, seeds))}"


def conditions(demonstrations: int, episodes: int) -> str:
    """Return in words how many demonstrations and episodes a table's cells have."""
    word = "demonstration" if demonstrations == 1 else "demonstrations"
    return f"{demonstrations} {word} a task, {episodes:,} episodes"


def tasks(sheet: Sheet) -> str:
    """Return the table of the tasks, their experts and what was replaced."""
    rows = [
        f"| {task} | {expert.solved} of {expert.starts} | {expert.steps or 'solves fewer'} |"
        for task in sheet.tasks.tasks
        for expert in [sheet.experts[task]]
    ]
    replaced = [
        f"{new} replaces {old}, whose expert solves {sheet.experts[old].solved} of "
        f"{sheet.experts[old].starts} training starts."
        for old, new in sheet.tasks.replaced.items()
    ]
    reason = "the benchmark's" if sheet.planned.limit else "the largest of the last column / 0.6"
    limit = f"The time limit is {sheet.tasks.limit} steps: {reason}."
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
        return f"{heading}\n\n{NOT_RUN}"
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
        said = f"{NOT_RUN}{f': {reason}' if reason else ''}"
        return [seed, cell.run, said, *[""] * (len(COLUMNS) + len(sheet.tasks.tasks))]
    start = sheet.cells.get(cell.start)
    if record.own_start:
        start = replace(record, starts=record.own_start)
    to_start = "" if cell.run == START or start is None else gain(difference([(start, record)]))
    to_controls = [
        gain(gains[cell, control]) if (cell, control) in gains else "" for control in CONTROLS
    ]
    rising = ", not at its plateau" if record.at_plateau is False else ""
    return [
        seed,
        f"{cell.run}{rising}",
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


NOT_RUN = "not run"
COLUMNS = ("seed", "run", "success", f"to its {START}", *(f"to {name}" for name in CONTROLS))
ROLES = {
    "chosen on": "Settings were chosen on this set.",
    "shown on": "Nothing was chosen on this set.",
}
HEAD = """{measured} {role}

```
{command}
```

[Arms, controls and columns](README.md#sets-of-tasks) are explained once for all sets."""
PICTURE = "![success against episodes](learning/{name}.svg)"
