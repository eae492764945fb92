"""Turn evaluated episodes into rows, success tables and parquet files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

from rlcore.runs.parquet import read_rows, schema_of, write_rows
from rlcore.runs.statistics import Passes, success_rate

if TYPE_CHECKING:
    from rlcore.contracts.episodes import EpisodeOutcome

PLAIN_WIDTH = 100


@dataclass(frozen=True)
class EpisodeResult:
    """One evaluated episode, a row of `eval/*.parquet`.

    Attributes:
        task: name of the task.
        trial: number of the start within the task.
        replica: number of the pass over the starts.
        success: whether the episode succeeded at any step.
        episode_return: undiscounted sum of rewards.
        length: number of env steps.
        sampling: how actions were drawn, see
            :attr:`rlcore.runs.protocol_record.EvaluationProtocol.sampling`.
        protocol: digest of the evaluation's protocol
            (:attr:`rlcore.runs.protocol_record.EvaluationProtocol.digest`); empty if the
            episode was not played under a protocol.
        infos: other values that the env measured, by name; the file has a column `info/NAME` for
            each.
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
    """Turn the outcomes that workers report into rows.

    Args:
        outcomes: the episodes' outcomes, with tasks by index.
        tasks: task names, :attr:`rlcore.contracts.specs.EnvSpec.tasks`.
        sampling: how actions were drawn.
        protocol: digest of the evaluation's protocol.
    """
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
        ValueError: an episode occurs twice, or the numbers of passes differ between starts, so that
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
        examples = " and ".join(f"{start} {count} times" for count, start in sorted(counts.items()))
        raise ValueError(f"starts were evaluated unequally often, e.g. {examples}")
    return {
        start: [success for _, success in sorted(passes.items())]
        for start, passes in by_start.items()
    }


def failures(results: Iterable[EpisodeResult]) -> list[EpisodeResult]:
    """List the failed episodes: tasks by increasing success rate, then by trial."""
    by_task: dict[str, list[EpisodeResult]] = {}
    for result in results:
        by_task.setdefault(result.task, []).append(result)
    worst = sorted((fmean(r.success for r in rows), task) for task, rows in by_task.items())
    rows = (row for _, task in worst for row in sorted(by_task[task], key=lambda r: r.trial))
    return [row for row in rows if not row.success]


def comparable(*sides: Iterable[EpisodeResult]) -> bool:
    """Return whether all episodes have the same protocol, as pairing them requires."""
    return len({result.protocol for side in sides for result in side}) <= 1


# -- the table ------------------------------------------------------------------------------


@dataclass(frozen=True)
class SuccessRow:
    """A row of the success table: a rate over n episodes with its interval.

    Averages of rates have no interval (lo and hi are None).
    """

    kind: Literal["task", "group", "average", "overall"]
    label: str
    rate: float
    n: int
    lo: float | None = None
    hi: float | None = None


def success_rows(
    results: Sequence[EpisodeResult], groups: Mapping[str, Sequence[str]] | None = None
) -> list[SuccessRow]:
    """Return the rows of the success table: tasks, groups, averages, then all episodes pooled.

    A group's rate is the rate over its pooled episodes. "bucket mean" is the unweighted mean of the
    group rates, as in the published tables of benchmarks with difficulty groups; "task mean" is the
    unweighted mean of the task rates. They may differ if groups have different sizes.

    Args:
        results: episodes of at least one task.
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
    """Return a row for the pooled episodes of several tasks.

    Args:
        wins: for each task, the passes of each of its starts.
    """
    rate, n, lo, hi = success_rate([passes for task in wins for passes in task])
    return SuccessRow(kind, label, rate, n, lo, hi)


def average(label: str, rows: Sequence[SuccessRow]) -> SuccessRow:
    """Return a row with the unweighted mean of the rates of other rows."""
    rate = sum(row.rate for row in rows) / len(rows)
    return SuccessRow("average", label, rate, sum(row.n for row in rows))


def plain_table(rows: Sequence[SuccessRow], title: str = "success") -> str:
    """Return the success table as text, with a section for each kind of row."""
    from rich.table import Table

    from rlcore.utils.console import as_text

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
    """Write one row for each episode to a parquet file, atomically.

    Args:
        path: the file.
        results: the episodes.
        made_with: protocol and policy settings of the evaluation, stored as the file's note
            (:func:`rlcore.runs.parquet.read_note`).
    """
    write_rows(path, map(asdict, results), schema_of(EpisodeResult), note=made_with)


def read_results(path: Path) -> list[EpisodeResult]:
    """Read rows written by :func:`write_results`.

    Raises:
        CheckpointError: the file is missing, damaged, or another kind of table.
    """
    return [EpisodeResult(**row) for row in read_rows(path, schema_of(EpisodeResult))]
