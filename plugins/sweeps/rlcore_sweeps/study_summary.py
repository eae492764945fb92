"""Summarise a study in a few lines: its trials, the best setting and its held-out success rate."""

from __future__ import annotations

from typing import Any

from rlcore_sweeps.study_record import HELD_OUT, StudyRecord


def summary_lines(study: StudyRecord) -> list[str]:
    """Return the lines that summarise a study in `sweep.txt`."""
    lines = [_counts(study), *_saved(study)]
    if study.best is None:
        return lines
    best = study.trials[study.best]
    setting = " ".join(f"{key}={value}" for key, value in best.setting.items())
    lines.append(f"best: trial {best.number}: {setting}")
    lines.append(
        f"  {study.objective} {best.value:.3f} on {study.split} starts, which selected it: "
        "this estimate is biased upwards"
    )
    if not study.heldout:
        if study.split != HELD_OUT:
            lines.append("  on held-out starts: not measured yet")
        return lines
    chosen, default = study.heldout["best"], study.heldout.get("default")
    lines.append(f"  success {_rate(chosen)} on held-out starts, which were not used for selection")
    if default:
        lines.append(f"  the recipe's own setting, trial 0: {_rate(default)} there")
    if gain := study.heldout.get("difference"):
        lines.append(
            "  difference {mean:+.3f} [{lo:+.3f}, {hi:+.3f}], paired, 95%, over these seeds".format(
                **gain
            )
        )
    elif best.number == 0:
        lines.append("  it is the recipe's own setting, if that was in the space")
    return lines


def _counts(study: StudyRecord) -> str:
    tried = len(study.trials) - study.count("running")
    seeds = len(study.seeds)
    return (
        f"study: {tried} of {study.planned} trials of {seeds} run{'s' if seeds > 1 else ''}: "
        f"{study.count('complete')} complete, {study.count('pruned')} pruned, "
        f"{study.count('failed')} failed"
    )


def _saved(study: StudyRecord) -> list[str]:
    """Return a line on the updates that pruning saved, or none if it saved none.

    A pruned trial also saves the runs with its other seeds.
    """
    made = planned = 0
    for trial in study.trials:
        for run in trial.runs:
            if run.updates is None or trial.state not in ("complete", "pruned"):
                continue
            made += run.updates if run.pruned is None else run.pruned
            planned += run.updates * (len(study.seeds) if trial.state == "pruned" else 1)
    return [f"pruning saved {planned - made} of {planned} updates"] if made < planned else []


def _rate(side: dict[str, Any]) -> str:
    text = "{rate:.3f} [{lo:.3f}, {hi:.3f}] n={n}".format(**side)
    rates = side["seeds"]
    return (
        text if len(rates) == 1 else f"{text} ({', '.join(f'{rate:.3f}' for rate in rates)} by run)"
    )
