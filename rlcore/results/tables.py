"""Make rows, tables and parquet of episodes. Knows nothing of how they were played."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

from rlcore.results.parquet import read_rows, schema_of, write_rows
from rlcore.results.statistics import Passes, success_rate

if TYPE_CHECKING:
    from rlcore.contracts.episodes import EpisodeOutcome

PLAIN_WIDTH = 100


@dataclass(frozen=True)
class EpisodeResult:
    """One evaluated episode, a row of `eval/*.parquet`.

    Attributes:
        task, trial, replica: its address, the task by name.
        success: whether it succeeded at any step.
        episode_return: sum of rewards.
        length: env steps.
        sampling: how actions were drawn, see
        :attr:`rlcore.run_folder.protocol_record.EvaluationProtocol`.
        protocol: digest of the evaluation's protocol
            (:attr:`rlcore.run_folder.protocol_record.EvaluationProtocol.digest`); empty outside of
            one.
        infos: what the env measured besides, by name; in the file a column `info/NAME` each.
    """

    task: str
    trial: int
    replica: int
    success: bool
    episode_return: float
    length: int
    sampling: str
    protocol: str = ""
    infos: Mapping[str, float] = field(default_factory=dict)


def from_outcomes(
    outcomes: Iterable[EpisodeOutcome], tasks: Sequence[str], sampling: str, protocol: str = ""
) -> list[EpisodeResult]:
    """Turn what the workers report into rows; `tasks` are
    :attr:`rlcore.contracts.specs.EnvSpec.tasks`."""
    return [
        EpisodeResult(
            task=tasks[outcome.episode.task],
            trial=outcome.episode.trial,
            replica=outcome.episode.replica,
            success=bool(outcome.success),
            episode_return=float(outcome.episode_return),
            length=int(outcome.length),
            sampling=sampling,
            protocol=protocol,
            infos=dict(outcome.infos),
        )
        for outcome in outcomes
    ]


def success_by_start(results: Iterable[EpisodeResult]) -> dict[tuple[str, int], Passes]:
    """Return `{(task, trial): success of each pass}`, for rates and paired differences.

    Raises:
        ValueError: an episode is there twice, or starts were played unequally often, so that
            pairs are not defined.
    """
    by_start: dict[tuple[str, int], dict[int, bool]] = {}
    for result in results:
        start = (result.task, result.trial)
        passes = by_start.setdefault(start, {})
        if result.replica in passes:
            raise ValueError(f"{start} was evaluated more than once in pass {result.replica}")
        passes[result.replica] = result.success
    counts = {len(passes): start for start, passes in by_start.items()}
    if len(counts) > 1:
        said = " and ".join(f"{start} {count} times" for count, start in sorted(counts.items()))
        raise ValueError(f"starts were evaluated unequally often, e.g. {said}")
    return {start: [win for _, win in sorted(each.items())] for start, each in by_start.items()}


def failures(results: Iterable[EpisodeResult]) -> list[EpisodeResult]:
    """List the episodes that did not succeed, those of the task with the lowest rate first."""
    by_task: dict[str, list[EpisodeResult]] = {}
    for result in results:
        by_task.setdefault(result.task, []).append(result)
    worst = sorted((fmean(r.success for r in rows), task) for task, rows in by_task.items())
    rows = (row for _, task in worst for row in sorted(by_task[task], key=lambda r: r.trial))
    return [row for row in rows if not row.success]


def comparable(*sides: Iterable[EpisodeResult]) -> bool:
    """Return whether all episodes were played under one protocol: only then are they paired."""
    return len({result.protocol for side in sides for result in side}) <= 1


# -- the table ------------------------------------------------------------------------------


@dataclass(frozen=True)
class SuccessRow:
    """One line: a rate over n episodes. Averages of rates have no interval (lo, hi are None)."""

    kind: Literal["task", "group", "average", "overall"]
    label: str
    rate: float
    n: int
    lo: float | None = None
    hi: float | None = None


def success_rows(
    results: Sequence[EpisodeResult], groups: Mapping[str, Sequence[str]] | None = None
) -> list[SuccessRow]:
    """List tasks, then groups, then averages, then all episodes pooled.

    "bucket mean" is the unweighted mean of the group rates, as in the published tables of
    benchmarks with difficulty groups; "task mean" is the unweighted mean of the task rates. They
    differ where groups are of different size. A group's rate is that of its pooled episodes.

    Args:
        results: episodes, of at least one task.
        groups: :attr:`rlcore.contracts.specs.EnvSpec.task_groups`; groups without episodes are
        left out.
    """
    by_task: dict[str, list[Passes]] = {}
    for (task, _), passes in success_by_start(results).items():
        by_task.setdefault(task, []).append(passes)
    task_rows = [pooled("task", task, [wins]) for task, wins in sorted(by_task.items())]
    group_rows = [
        pooled("group", name, [by_task[task] for task in members if task in by_task])
        for name, members in (groups or {}).items()
        if any(task in by_task for task in members)
    ]
    averages = [average("bucket mean", group_rows)] if group_rows else []
    overall = pooled("overall", "all episodes", list(by_task.values()))
    return [*task_rows, *group_rows, *averages, average("task mean", task_rows), overall]


def pooled(
    kind: Literal["task", "group", "overall"], label: str, wins: Sequence[Sequence[Passes]]
) -> SuccessRow:
    """One line of all episodes of several rows; `wins`: of each row, of each start its passes."""
    rate, n, lo, hi = success_rate([passes for one in wins for passes in one])
    return SuccessRow(kind, label, rate, n, lo, hi)


def average(label: str, rows: Sequence[SuccessRow]) -> SuccessRow:
    """The unweighted mean of some rates."""
    rate = sum(row.rate for row in rows) / len(rows)
    return SuccessRow("average", label, rate, sum(row.n for row in rows))


def plain_table(rows: Sequence[SuccessRow], title: str = "success") -> str:
    """Write as text, with a section per kind of row."""
    from rich.table import Table

    from rlcore.terminal.console import as_text

    table = Table(title=title, title_justify="left")
    table.add_column("task")
    for name in ("episodes", "success", "95% interval"):
        table.add_column(name, justify="right")
    for i, row in enumerate(rows):
        ends_section = i + 1 < len(rows) and rows[i + 1].kind != row.kind
        interval = "" if row.lo is None or row.hi is None else f"{row.lo:.3f} .. {row.hi:.3f}"
        table.add_row(row.label, str(row.n), f"{row.rate:.3f}", interval, end_section=ends_section)
    return as_text(table, width=PLAIN_WIDTH)


# -- parquet --------------------------------------------------------------------------------


def write_results(
    path: Path, results: Sequence[EpisodeResult], made_with: Mapping[str, Any] | None = None
) -> None:
    """Write one row an episode, atomically.

    Args:
        made_with: how the evaluation came about, kept beside the rows.
    """
    write_rows(path, map(asdict, results), schema_of(EpisodeResult), note=made_with)


def read_results(path: Path) -> list[EpisodeResult]:
    """Read rows written by :func:`write_results`.

    Raises:
        CheckpointError: missing, damaged, or another kind of table.
    """
    return [EpisodeResult(**row) for row in read_rows(path, schema_of(EpisodeResult))]
