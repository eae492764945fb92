"""Draw the charts of runs: success rates, logged metrics, supervised losses and gains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from rlcore.runs.tables import success_rows
from rlcore_tools.metric_names import metric_names
from rlcore_tools.report.chart import Point, Series, chart, interval_bars, number
from rlcore_tools.report.curves import Curve, evaluations_by_update
from rlcore_tools.report.figures import Gain
from rlcore_tools.runs.record import SUCCESS, RunRecord

X_LABELS = ("update", "env steps", "minutes of training")
CURVES = {
    "env/return": "return of an episode",
    "env/episode_len": "env steps of an episode",
    "train/actor/approx_kl": "approximate KL to the policy that acted",
    "train/actor/clip_fraction": "fraction of clipped ratios",
    "train/actor/entropy": "entropy",
    "train/actor/grad_norm": "gradient norm",
    "train/critic/value_loss": "value loss",
    "train/critic/explained_variance": "explained variance of the critic",
    "rollout/env_steps_per_second": "env steps per second",
}
"""Metrics drawn as small charts, in this order, if a run logged them; `{metric: title}`."""
LEFT_OUT = ("step", "time", "eval/", "sft/", "time/", *CURVES)
"""Prefixes of metric names that :func:`other_metrics` leaves out, as it does further names."""
MOST_COLUMNS = 12  # evaluations in a strip; of more, every n-th one and the last are shown
IMITATION = {"sft/train_loss": "training", "sft/val_loss": "validation"}
# (width, height) of charts, in units of the view box
WIDE = (960, 320)
NARROW = (400, 300)
SMALL = (400, 200)


def success_charts(
    curves: Sequence[Curve], x_labels: Sequence[str] = X_LABELS
) -> list[tuple[str, dict[str, Markup]]]:
    """Draw success rates by updates, by env steps and by minutes of training.

    Curves show the success rate of training episodes, markers that of evaluations. A chart whose x
    was not logged is left out.

    Returns:
        `(label of x, {"wide": chart, "narrow": chart})`; empty if no run was trained.
    """
    is_single = len(curves) == 1 and len(curves[0].records) == 1
    charts: list[tuple[str, dict[str, Markup]]] = []
    for x_label in x_labels:
        series = []
        for i, curve in enumerate(curves):
            if points := curve.against(curve.trained(), x_label):
                series.append(Series(curve.name, points, colour=i))
            if evaluated := curve.against(curve.evaluated(), x_label):
                name = "evaluation" if is_single else f"{curve.name}, evaluation"
                series.append(Series(name, evaluated, colour=i + is_single, joined=False))
        if not any(line.joined for line in series):
            return []
        if len({point.x for line in series for point in line.points}) < 2 and charts:
            continue  # not logged
        charts.append((x_label, success_chart(series, x_label)))
    return charts


def success_chart(series: Sequence[Series], x_label: str = "update") -> dict[str, Markup]:
    """Draw success rates, on a y axis from 0 to 1, as `{"wide": chart, "narrow": chart}`."""
    return {
        kind: chart(
            series,
            width=width,
            height=height,
            label=f"success rate by {x_label}",
            x_label=x_label,
            y_range=(0.0, 1.0),
        )
        for kind, (width, height) in (("wide", WIDE), ("narrow", NARROW))
    }


def metric_charts(curves: Sequence[Curve]) -> list[tuple[str, str, Markup | str]]:
    """Return `(title, metric, chart)` of the metrics in `CURVES` that these runs logged.

    A metric that never changes has a text with its value in place of the chart.
    """
    return [
        (title, metric, picture)
        for metric, title in CURVES.items()
        if (picture := _small_chart(curves, metric, title)) is not None
    ]


def other_metrics(record: RunRecord) -> list[tuple[str, str, Markup | str]]:
    """Return `("", metric, chart)` of the other metrics that a run logged, sorted by name.

    A metric that never changes has a text with its value in place of the chart.
    """
    names = dict.fromkeys(name for line in record.metrics for name in line)
    drawn_elsewhere = {SUCCESS, *metric_names()}
    listed = [
        name for name in names if not name.startswith(LEFT_OUT) and name not in drawn_elsewhere
    ]
    curve = Curve("this run", [record])
    pictures = [("", name, _small_chart([curve], name, name)) for name in sorted(listed)]
    return [(title, name, picture) for title, name, picture in pictures if picture is not None]


def _small_chart(curves: Sequence[Curve], metric: str, title: str) -> Markup | str | None:
    """Draw a small chart of a metric.

    Returns:
        the chart; a text if the metric has the same value at all updates; None if it has no value.
    """
    series = [
        Series(curve.name, points, colour=i)
        for i, curve in enumerate(curves)
        if (points := curve.points(metric))
    ]
    values = [p.y for line in series for p in line.points if p.y == p.y]
    if not values:
        return None
    if len({*values}) == 1:
        count = f"all {len(values)} updates" if len(values) > 1 else "one update"
        return f"{number(values[0])} in {count}"
    width, height = SMALL
    return chart(series, width=width, height=height, label=title)


@dataclass(frozen=True)
class Strip:
    """Success rate of each task in successive evaluations of a run.

    Attributes:
        labels: labels of the evaluations, in order.
        rows: (task, success rate in each evaluation; None if the task was not played).
    """

    labels: Sequence[str]
    rows: Sequence[tuple[str, Sequence[float | None]]]


def task_strip(record: RunRecord) -> Strip | None:
    """Return the strip of a run; None for fewer than three comparable evaluations.

    Two evaluations are in the table of tasks already.
    """
    evaluations = list(evaluations_by_update(record))
    if len(evaluations) < 3:
        return None
    every = -(-len(evaluations) // MOST_COLUMNS)
    selected = evaluations[:-1:every] + evaluations[-1:]
    rates = [
        {row.label: row.rate for row in success_rows(results) if row.kind == "task"}
        for _, _, results in selected
    ]
    tasks = sorted({task for by_task in rates for task in by_task})
    return Strip(
        [label.removeprefix("step_").lstrip("0") or label for label, _, _ in selected],
        [(task, [by_task.get(task) for by_task in rates]) for task in tasks],
    )


def imitation_chart(record: RunRecord) -> Markup | None:
    """Draw the losses of supervised training by optimizer step; None if none were logged."""
    series = [
        Series(name, [Point(*pair) for pair in record.series(metric)], colour=i)
        for i, (metric, name) in enumerate(IMITATION.items())
        if record.series(metric)
    ]
    if not series:
        return None
    width, height = SMALL
    label = "supervised loss by optimizer step"
    return chart(series, width=width, height=height, label=label, x_label="optimizer step")


def gain_bars(gain: Gain) -> Markup | None:
    """Draw the success rates before and after training; None if both are missing."""
    sides = [("before", gain.before), ("after", gain.after)]
    rows = [
        (kind, Point(0, rate.rate, rate.lo, rate.hi)) for kind, rate in sides if rate is not None
    ]
    return interval_bars(rows) if rows else None
