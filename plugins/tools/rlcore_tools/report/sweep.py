"""Make the page of a sweep, or of several seeds of one recipe, which ranks their settings.

rows --ranked--> settings --> table, bands over seeds, parallel coordinates, importance of keys
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from rlcore.contracts.errors import UserError
from rlcore_tools.report.chart import Point, interval_bars
from rlcore_tools.report.clips import link
from rlcore_tools.report.curves import Curve
from rlcore_tools.report.page import render
from rlcore_tools.report.parallel import Line, parallel
from rlcore_tools.report.pictures import success_charts
from rlcore_tools.runs.importance import Part, parts
from rlcore_tools.runs.ranking import UNDECIDED, Ranked, Ranking, ranked
from rlcore_tools.runs.ranking_text import sentences, starts_of
from rlcore_tools.runs.record import RunRecord
from rlcore_tools.runs.row import Row
from rlcore_tools.runs.study import Study
from rlcore_tools.runs.table import counts, note
from rlcore_tools.text import unique_suffixes

MOST_CURVES = 5  # the best settings, which are drawn; more bands would cover each other
MOST_AXES = 8


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
    curves = [Curve(setting.label or "all runs", _readable(setting)) for setting in measured]
    drawn = [curve for curve in curves[:MOST_CURVES] if curve.records]
    keys = parts(ranking.settings, ranking.keys)
    charts = success_charts(drawn, ("update",))
    settings = enumerate(ranking.settings, start=1)
    return render(
        "sweep.html",
        title=title,
        counts=_counts(rows, ranking),
        best=measured[0] if measured else None,
        sentences=sentences(ranking) if measured else [],
        starts=starts_of(ranking),
        study=study,
        ranking=ranking,
        short=_short_names(ranking),
        settings=[_setting_entry(setting, number, study) for number, setting in settings],
        curves=charts[0][1] if charts else None,
        drawn=[curve.name for curve in drawn],
        coordinates=_coordinates(ranking, [part.key for part in keys]),
        parts=keys,
        importance=_importance(study, keys),
        runs=[_run_entry(row, ranking, base) for row in rows],
    )


def _counts(rows: Sequence[Row], ranking: Ranking) -> str:
    seeds = sorted({len(setting.seeds) for setting in ranking.measured}) or [0]
    number = f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else str(seeds[0])
    settings = f"{len(ranking.settings)} setting{'s' if len(ranking.settings) > 1 else ''}"
    return f"{settings}, {number} seed{'' if number == '1' else 's'} each; {counts(rows)}"


def _setting_entry(setting: Ranked, number: int, study: Study | None) -> dict[str, Any]:
    rows = setting.setting.rows
    rate = setting.rate
    bars = rate and interval_bars([("after", Point(0, rate.rate, rate.lo, rate.hi))])
    return {
        "setting": setting,
        "runs": len(rows),
        "number": number,
        "bars": bars,
        "chosen_by": study.value_of(rows[0].folder) if study else None,
        "seconds": sum(row.seconds or 0.0 for row in rows),
    }


def _run_entry(row: Row, ranking: Ranking, base: Path) -> dict[str, Any]:
    report = row.record.folder.report
    labels = (setting.label for setting in ranking.settings if row in setting.setting.rows)
    return {
        "row": row,
        "report": link(report, base) if report.is_file() else None,
        "setting": next(labels, ""),
        "note": ranking.left_out.get(row.name) or note(row),
    }


def _readable(setting: Ranked) -> list[RunRecord]:
    """Return the records of a setting's runs whose log and evaluations can be read."""
    records = []
    for seed in setting.seeds:
        try:
            _ = seed.row.record.metrics  # reading raises an error if the file is damaged
            _ = seed.row.record.evaluations
        except UserError:
            continue
        records.append(seed.row.record)
    return records


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
    for setting in measured:
        rate = setting.rate.rate if setting.rate else 0.0
        kind = {"best": "best", UNDECIDED: "tied"}.get(setting.verdict, "beaten")
        title = f"{setting.label}: {rate:.3f}"
        lines.append(Line([*(setting.values[key] for key in axes), rate], kind, title))
    short = _short_names(ranking)
    names = [*(short[key] for key in axes), "success"]
    narrow = min(len(axes), 3)  # the most important keys
    narrow_lines = [line._replace(values=line.values[-narrow - 1 :]) for line in lines]
    return {
        "wide": parallel(lines, names, width=960, height=340),
        "narrow": parallel(narrow_lines, names[-narrow - 1 :], width=400, height=300),
    }


def _short_names(ranking: Ranking) -> dict[str, str]:
    return dict(zip(ranking.keys, unique_suffixes(ranking.keys, "."), strict=True))


def _importance(study: Study | None, keys: Sequence[Part]) -> dict[str, Any]:
    """Return the importance of each key as `{"by": source, "shares": {key: share}}`.

    The source is "optuna" if Optuna can evaluate the study; else it is "" and shares are
    those of :mod:`rlcore_tools.runs.importance`.
    """
    shares = study.importance() if study else None
    if shares:
        return {"by": "optuna", "shares": shares}
    return {"by": "", "shares": {part.key: part.share for part in keys}}
