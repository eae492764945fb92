"""Write `summary.json`: the results of a run, in one small file with fixed keys.

What is printed as a table is in :mod:`rlcore.results.tables`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict

from rlcore.contracts.episodes import mean_infos
from rlcore.contracts.run import Totals
from rlcore.files.atomic import write_text
from rlcore.results.levels import Reached, levels_reached
from rlcore.results.statistics import paired_difference, success_rate
from rlcore.results.tables import (
    EpisodeResult,
    comparable,
    failures,
    success_by_start,
    success_rows,
)

DIGITS = 6  # decimals kept of rates; more is noise


class SuccessFigures(TypedDict):
    """A success rate over n episodes and its 95% interval."""

    rate: float
    n: int
    lo: float
    hi: float


class DifferenceFigures(TypedDict):
    """A paired difference of success rates and its 95% interval."""

    mean: float
    lo: float
    hi: float


class Sides(TypedDict):
    """A rate on both sides; None where it was not measured."""

    before: float | None
    after: float | None


class Forgetting(TypedDict):
    """Success on tasks that were not trained on; None where a side was not measured."""

    tasks: list[str]
    success_before: SuccessFigures | None
    success_after: SuccessFigures | None
    paired_difference: DifferenceFigures | None


class Control(TypedDict):
    """How much work a control was, and how that follows from what the run did.

    `gradient_samples` of optimizer steps (forward and backward) and `decisions` of training
    episodes (forward, `forward_share` of both) are the run's; `samples` in `steps` steps of
    `batch_size` the control's; `derived` has the formulas.
    """

    gradient_samples: int
    decisions: int
    forward_share: str
    samples: int
    batch_size: int
    steps: int
    derived: str


class _Measured(TypedDict):
    success_before: SuccessFigures | None
    success_after: SuccessFigures | None
    paired_difference: DifferenceFigures | None
    seed: int
    seconds: dict[str, float]
    env_steps: int
    episodes: int
    versions: dict[str, str]


class Summary(_Measured, total=False):
    """The keys of `summary.json`; None where a run did not measure. Control keys only where asked,
    groups and averages only where the env has groups of tasks, `caveat` only where it has one,
    `stopped` only where a plugin ended training: the reason.

    `failures` are the trials of `after` that failed (in any pass) by task, the worst task first;
    `infos` are means of what the env measured besides, `groups` the pooled rates of groups by name,
    `averages` the "bucket mean" and the "task mean" (see
    :func:`rlcore.results.tables.success_rows`); `seconds` are wall seconds by phase; `env_steps`
    and `episodes` count training, evaluation apart; `control_difference` is control - before on
    the same episodes, those of the best checkpoints likewise, and `control` is its work;
    `best_checkpoint` is what
    `runner.keep_best` chose; `reached` says what was spent up to each level of success
    (:func:`rlcore.results.levels.levels_reached`), of a run that trained by reinforcement.
    """

    success_control: SuccessFigures | None
    control_difference: DifferenceFigures | None
    control: Control
    success_control_best: SuccessFigures | None
    control_best_difference: DifferenceFigures | None
    best_checkpoint: str
    success_best: SuccessFigures | None
    best_difference: DifferenceFigures | None
    forgetting: Forgetting
    caveat: str
    stopped: str
    reached: dict[str, Reached | None]
    groups: dict[str, Sides]
    averages: dict[str, Sides]
    infos: dict[str, Sides]
    failures: dict[str, list[int]]


def build_summary(
    seen: Mapping[str, Sequence[EpisodeResult]],
    *,
    groups: Mapping[str, Sequence[str]] | None = None,
    seed: int,
    seconds: Mapping[str, float],
    totals: Totals,
    versions: Mapping[str, str],
    caveat: str = "",
    stopped: str = "",
    metrics: Sequence[Mapping[str, float | None]] = (),
    best: str | None = None,
    control: Control | None = None,
) -> Summary:
    """Rates with Wilson intervals and differences paired on (task, trial), which there are only
    between sides that were played under one protocol.

    Args:
        seen: evaluated episodes: "before", "after", "best", "control", "control_best",
            "forgetting/before", "forgetting/after", as far as measured.
        groups: :attr:`rlcore.contracts.specs.EnvSpec.task_groups`.
        seed: root seed of the run.
        seconds: see :class:`Summary`.
        totals: of training.
        versions: of what the run was made with, see :func:`rlcore.run_folder.manifest.versions`.
        caveat: :attr:`rlcore.contracts.specs.EnvSpec.caveat` of what was evaluated.
        stopped: why a plugin ended training; empty: none did.
        metrics: lines of `metrics.jsonl`.
        best: name of the best checkpoint.
        control: how much work the control was.

    Raises:
        ValueError: the sides are not the same episodes, each once.
    """
    before, after = seen.get("before"), seen.get("after")
    summary: Summary = {
        "success_before": _rate(before),
        "success_after": _rate(after),
        "paired_difference": _difference(before, after),
        "seed": seed,
        "seconds": {phase: round(value, 3) for phase, value in seconds.items()},
        "env_steps": totals.env_steps,
        "episodes": totals.episodes,
        "versions": dict(versions),
    }
    for name in ("control", "control_best", "best"):
        if name in seen:
            summary[f"success_{name}"] = _rate(seen[name])  # type: ignore[literal-required]
            between = _difference(before, seen[name])
            summary[f"{name}_difference"] = between  # type: ignore[literal-required]
    if control is not None:
        summary["control"] = control
    if best is not None:
        summary["best_checkpoint"] = best
    if (last := seen.get("forgetting/after")) is not None:
        first = seen.get("forgetting/before")
        summary["forgetting"] = {
            "tasks": list(dict.fromkeys(one.task for one in last)),
            "success_before": _rate(first),
            "success_after": _rate(last),
            "paired_difference": _difference(first, last),
        }
    told, found = (mean_infos(one.infos for one in side or ()) for side in (before, after))
    if told or found:
        names = {**told, **found}
        summary["infos"] = {n: {"before": told.get(n), "after": found.get(n)} for n in names}
    if groups:
        summary["groups"] = _sides(before, after, groups, "group")
        summary["averages"] = _sides(before, after, groups, "average")
    if after is not None:
        lost: dict[str, dict[int, None]] = {}
        for one in failures(after):
            lost.setdefault(one.task, {})[one.trial] = None
        summary["failures"] = {task: [*trials] for task, trials in lost.items()}
    if metrics and totals.episodes:
        summary["reached"] = levels_reached(metrics)
    if caveat:
        summary["caveat"] = caveat
    if stopped:
        summary["stopped"] = stopped
    return summary


def _sides(
    before: Sequence[EpisodeResult] | None,
    after: Sequence[EpisodeResult] | None,
    groups: Mapping[str, Sequence[str]],
    kind: str,
) -> dict[str, Sides]:
    first, last = (
        {row.label: round(row.rate, DIGITS) for row in rows if row.kind == kind}
        for rows in (success_rows(side, groups) if side else [] for side in (before, after))
    )
    return {
        label: {"before": first.get(label), "after": last.get(label)} for label in {**first, **last}
    }


def _rate(outcomes: Sequence[EpisodeResult] | None) -> SuccessFigures | None:
    if outcomes is None:
        return None
    rate, n, lo, hi = success_rate([*success_by_start(outcomes).values()])
    return {"rate": round(rate, DIGITS), "n": n, "lo": round(lo, DIGITS), "hi": round(hi, DIGITS)}


def _difference(
    before: Sequence[EpisodeResult] | None, after: Sequence[EpisodeResult] | None
) -> DifferenceFigures | None:
    if before is None or after is None or not comparable(before, after):
        return None
    mean, lo, hi = paired_difference(success_by_start(before), success_by_start(after))
    return {"mean": round(mean, DIGITS), "lo": round(lo, DIGITS), "hi": round(hi, DIGITS)}


def write_summary(path: Path, summary: Summary) -> None:
    """Write it atomically; NaN is refused, as readers in other languages would stumble."""
    write_text(path, json.dumps(summary, indent=2, allow_nan=False) + "\n")
