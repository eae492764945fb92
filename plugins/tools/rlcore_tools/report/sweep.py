"""Make the page of a sweep, or of several seeds of one recipe, which ranks their settings.

rows --ranked--> settings --> table, bands over seeds, parallel coordinates, importance of keys
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from rlcore.api import open_run
from rlcore.contracts.errors import UserError
from rlcore.run_folder.folder import RunFolder
from rlcore_tools.report.bands import by_step, means_of, thinned
from rlcore_tools.report.chart import Point, Series, interval_bars
from rlcore_tools.report.clips import link
from rlcore_tools.report.page import render
from rlcore_tools.report.parallel import Line, parallel
from rlcore_tools.report.pictures import (
    EPISODES,
    SUCCESS,
    success_chart,
    with_gaps,
    with_intervals,
)
from rlcore_tools.runs.importance import Part, parts
from rlcore_tools.runs.row import Row
from rlcore_tools.runs.settings import Ranking, Setting, ranked
from rlcore_tools.runs.standing import UNDECIDED, place, sentences, starts_of
from rlcore_tools.runs.study import Study
from rlcore_tools.runs.table import note

MOST_CURVES = 5  # the best settings, which are drawn; more bands would cover each other
MOST_AXES = 8
EVALUATED = "eval/success_once"


def sweep_page(title: str, rows: Sequence[Row], base: Path, sweep: Path | None = None) -> str:
    """Return the HTML page that compares runs by their settings.

    Args:
        title: title of the page, such as the sweep's name.
        rows: one row per run.
        base: folder of the page; links are relative to it.
        sweep: folder of the sweep; None if the runs belong to no sweep.
    """
    ranking = ranked(rows)
    study = None if sweep is None else Study.of(sweep)
    measured = ranking.measured
    shown = [one for one in measured if one.seeds][:MOST_CURVES]
    keys = parts(ranking.settings, ranking.keys)
    return render(
        "sweep.html",
        title=title,
        counts=_counts(rows, ranking),
        best=measured[0] if measured else None,
        tied=ranking.tied,
        said=sentences(ranking) if measured else [],
        starts=starts_of(ranking),
        study=study,
        ranking=ranking,
        short=_short(ranking.keys),
        settings=[_setting_row(one, ranking, i, study) for i, one in enumerate(ranking.settings)],
        curves=_curves(shown),
        drawn=[(one.label or "all runs", i) for i, one in enumerate(shown)],
        coordinates=_coordinates(ranking, [part.key for part in keys]),
        parts=keys,
        importance=_importance(study, keys),
        runs=[_run_row(row, ranking, base) for row in rows],
        left_out=ranking.left_out,
    )


def _counts(rows: Sequence[Row], ranking: Ranking) -> str:
    states = ", ".join(
        f"{count} {state}" for state, count in Counter(r.state for r in rows).items()
    )
    seeds = sorted({len(one.seeds) for one in ranking.measured}) or [0]
    of = f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else str(seeds[0])
    settings = f"{len(ranking.settings)} setting{'s' if len(ranking.settings) > 1 else ''}"
    return f"{settings}, {of} seed{'' if of == '1' else 's'} each; {len(rows)} runs: {states}"


def _setting_row(
    one: Setting, ranking: Ranking, number: int, study: Study | None
) -> dict[str, Any]:
    rate = one.rate
    return {
        "setting": one,
        "number": number + 1,
        "place": place(ranking, one),
        "bars": None
        if rate is None
        else interval_bars([("after", Point(0, rate.rate, rate.lo, rate.hi))]),
        "chosen_by": study.value_of(one.rows[0].folder) if study else None,
        "seconds": sum(row.seconds or 0.0 for row in one.rows),
    }


def _run_row(row: Row, ranking: Ranking, base: Path) -> dict[str, Any]:
    report = RunFolder(row.folder).report
    owner = next((one for one in ranking.settings if row in one.rows), None)
    return {
        "row": row,
        "report": link(report, base) if report.is_file() else None,
        "setting": owner.label if owner else "",
        "note": ranking.left_out.get(row.name) or note(row),
    }


# -- curves -------------------------------------------------------------------------------------


def _curves(settings: Sequence[Setting]) -> dict[str, Markup] | None:
    """Draw the success rate of each setting by update.

    Lines show the mean over seeds in training, markers that in evaluations. The band is the range
    over seeds; with one seed it is the Wilson interval over the update's episodes.

    Returns:
        `{"wide": chart, "narrow": chart}`; None if no setting logged training success.
    """
    series = []
    for colour, one in enumerate(settings):
        logs = [_metrics(seed.row.folder) for seed in one.seeds]
        name = one.label or "all runs"
        trained = means_of([by_step(log, SUCCESS) for log in logs])
        if len(logs) == 1:
            trained = with_intervals(trained, by_step(logs[0], EPISODES))
        if trained:
            series.append(Series(name, with_gaps(thinned(trained)), colour=colour))
        evaluated = means_of([by_step(log, EVALUATED) for log in logs])
        if evaluated:
            series.append(Series(f"{name}, evaluation", evaluated, colour, joined=False))
    if not any(one.joined for one in series):
        return None
    return success_chart(series)


def _metrics(folder: Path) -> list[dict[str, float | None]]:
    try:
        return open_run(folder).metrics()
    except UserError:  # a damaged log: the run has no curve
        return []


# -- keys ---------------------------------------------------------------------------------------


def _coordinates(ranking: Ranking, keys: Sequence[str]) -> dict[str, Markup] | None:
    """Draw parallel coordinates of the measured settings.

    Args:
        keys: swept keys, the most important first. It has the axis next to success.

    Returns:
        `{"wide": chart, "narrow": chart}`; None for fewer than two settings or no keys.
    """
    measured = ranking.measured
    if len(measured) < 2 or not keys:
        return None
    axes = [*reversed(keys[:MOST_AXES])]
    lines = []
    for one in measured:
        rate = one.rate.rate if one.rate else 0.0
        kind = {"best": "best", UNDECIDED: "tied"}.get(place(ranking, one), "beaten")
        title = f"{one.label}: {rate:.3f}"
        lines.append(Line([*(one.values[key] for key in axes), rate], kind, title))
    told = _short(ranking.keys)
    names = [*(told[key] for key in axes), "success"]
    narrow = min(len(axes), 3)  # the most important keys
    few = [line._replace(values=line.values[-narrow - 1 :]) for line in lines]
    return {
        "wide": parallel(lines, names, width=960, height=340),
        "narrow": parallel(few, names[-narrow - 1 :], width=400, height=300),
    }


def _short(keys: Sequence[str]) -> dict[str, str]:
    """Return the shortest unique dotted suffix of each key."""
    found = {}
    for key in keys:
        parts_of = key.split(".")
        ends = [".".join(parts_of[-n:]) for n in range(1, len(parts_of) + 1)]
        found[key] = next(
            end for end in ends if sum(f".{other}".endswith(f".{end}") for other in keys) == 1
        )
    return found


def _importance(study: Study | None, keys: Sequence[Part]) -> dict[str, Any]:
    """Return the importance of each key as `{"by": source, "shares": {key: share}}`.

    The source is "optuna" if Optuna can evaluate the study; otherwise it is "" and shares are
    those of :mod:`rlcore_tools.runs.importance`.
    """
    judged = study.importance() if study else None
    if judged:
        return {"by": "optuna", "shares": judged}
    return {"by": "", "shares": {part.key: part.share for part in keys}}
