"""Draw the charts of runs: success rates, logged metrics, supervised losses and gains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from statistics import fmean

from markupsafe import Markup

from rlcore.results.tables import EpisodeResult, comparable, success_rows
from rlcore_tools.other_names import OTHER_NAMES
from rlcore_tools.report.bands import by_step, means_of, thinned
from rlcore_tools.report.chart import Point, Series, chart, interval_bars, number
from rlcore_tools.report.figures import Gain, gain, training_interval
from rlcore_tools.report.record import RunRecord

SUCCESS, EPISODES = "env/success_once", "env/episodes"
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
APART = ("step", "time", "eval/", "sft/", "time/", *CURVES, *OTHER_NAMES)
"""Prefixes of metric names that :func:`other_metrics` leaves out."""
SPENT = ("time/rollout", "time/update", "time/sync")
MOST_COLUMNS = 12  # evaluations in a strip; of more, every n-th one and the last are shown
IMITATION = {"sft/train_loss": "training", "sft/val_loss": "validation"}
WIDE, NARROW, SMALL = (960, 320), (400, 300), (400, 200)


@dataclass(frozen=True)
class Curve:
    """Runs that are drawn as one curve. Runs of several seeds become their mean and a band.

    Attributes:
        name: name in the legend.
        records: the runs, which differ only in their seed.
    """

    name: str
    records: Sequence[RunRecord]

    def points(self, metric: str) -> list[Point]:
        """Return a metric by update, with NaN points as gaps where updates are missing.

        For several runs, points are means over the runs at the updates that all of them logged.
        """
        if len(self.records) == 1:
            return with_gaps([Point(*pair) for pair in self.records[0].series(metric)])
        return with_gaps(means_of([dict(one.series(metric)) for one in self.records]))


def success_charts(curves: Sequence[Curve]) -> list[tuple[str, dict[str, Markup]]]:
    """Draw success rates by updates, by env steps and by minutes of training.

    Curves show the success rate of training episodes, markers that of evaluations. A chart whose x
    was not logged is left out.

    Returns:
        `(label of x, {"wide": chart, "narrow": chart})`; empty if no run was trained.
    """
    lone = len(curves) == 1 and len(curves[0].records) == 1
    charts: list[tuple[str, dict[str, Markup]]] = []
    for x_label in ("update", "env steps", "minutes of training"):
        series = []
        for i, curve in enumerate(curves):
            x = [_counted(one, x_label) for one in curve.records]
            if points := _moved(_training(curve), x):
                series.append(Series(curve.name, points, colour=i))
            if evaluated := _moved(_evaluated(curve), x):
                label = "evaluation" if lone else f"{curve.name}, evaluation"
                series.append(Series(label, evaluated, colour=i + lone, joined=False))
        if not any(one.joined for one in series):
            return []
        if len({p.x for one in series for p in one.points}) < 2 and charts:
            continue  # not logged
        charts.append((x_label, success_chart(series, x_label)))
    return charts


def success_chart(series: Sequence[Series], x_label: str = "update") -> dict[str, Markup]:
    """Draw success rates, on a y axis from 0 to 1, as `{"wide": chart, "narrow": chart}`."""
    return {
        kind: chart(
            series, width=width, height=height, label=f"success rate by {x_label}",
            x_label=x_label, y_range=(0.0, 1.0),
        )
        for kind, (width, height) in (("wide", WIDE), ("narrow", NARROW))
    }  # fmt: skip


def _counted(record: RunRecord, x_label: str) -> Mapping[int, float]:
    """Return `{update: x}`, cumulative over updates; update 0 is at x = 0.

    Args:
        x_label: "update", "env steps" or "minutes of training".
    """
    steps = [step for step, _ in record.series(SUCCESS)]
    if x_label == "update":
        return {0: 0.0, **{step: float(step) for step in steps}}
    if x_label == "env steps":
        played, lengths = dict(record.series(EPISODES)), dict(record.series("env/episode_len"))
        spent = [played.get(step, 0.0) * lengths.get(step, 0.0) for step in steps]
    else:
        seconds = [dict(record.series(name)) for name in SPENT]
        spent = [sum(one.get(step, 0.0) for one in seconds) / 60 for step in steps]
    return {0: 0.0, **dict(zip(steps, accumulate(spent), strict=True))}


def _moved(points: Sequence[Point], x: Sequence[Mapping[int, float]]) -> list[Point]:
    """Replace the update of each point by the mean over runs of x at that update.

    A point whose update no run logged (a gap) gets the x of the point before it.

    Args:
        points: points whose x is an update.
        x: `{update: x}` of each run.
    """
    moved: list[Point] = []
    for point in points:
        at = [one[int(point.x)] for one in x if int(point.x) in one]
        if at or moved:
            moved.append(point._replace(x=fmean(at) if at else moved[-1].x))
    return moved


def metric_charts(curves: Sequence[Curve]) -> list[tuple[str, str, Markup | str]]:
    """Return `(title, metric, chart)` of the metrics in `CURVES` that these runs logged.

    A metric that never changes has a text with its value in place of the chart.
    """
    return [
        (what, metric, picture)
        for metric, what in CURVES.items()
        if (picture := _small(curves, metric, what)) is not None
    ]


def other_metrics(record: RunRecord) -> list[tuple[str, str, Markup | str]]:
    """Return `("", metric, chart)` of the other metrics that a run logged, sorted by name.

    A metric that never changes has a text with its value in place of the chart.
    """
    names = dict.fromkeys(name for line in record.metrics for name in line)
    shown = [name for name in names if not name.startswith(APART) and name != SUCCESS]
    curve = Curve("this run", [record])
    found = [("", name, _small([curve], name, name)) for name in sorted(shown)]
    return [(what, name, one) for what, name, one in found if one is not None]


def _small(curves: Sequence[Curve], metric: str, what: str) -> Markup | str | None:
    """Draw a small chart of a metric.

    Returns:
        the chart; a text if the metric has the same value at all updates; None if it has no value.
    """
    series = [
        Series(curve.name, points, colour=i)
        for i, curve in enumerate(curves)
        if (points := curve.points(metric))
    ]
    values = [p.y for one in series for p in one.points if p.y == p.y]
    if not values:
        return None
    if len({*values}) == 1:
        count = f"all {len(values)} updates" if len(values) > 1 else "one update"
        return f"{number(values[0])} in {count}"
    width, height = SMALL
    return chart(series, width=width, height=height, label=what)


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
    found = list(_in_order(record))
    each = -(-len(found) // MOST_COLUMNS)
    shown = found[:1] + found[each:-1:each] + found[-1:] if each > 1 else found
    rates = [
        {row.label: row.rate for row in success_rows(results) if row.kind == "task"}
        for _, _, results in shown
    ]
    tasks = sorted({task for side in rates for task in side})
    if len(shown) < 3:
        return None
    return Strip(
        [label.removeprefix("step_").lstrip("0") or label for label, _, _ in shown],
        [(task, [side.get(task) for side in rates]) for task in tasks],
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


def gain_bars(each: Gain) -> Markup | None:
    """Draw the success rates before and after training; None if both are missing."""
    sides = [("before", each.before), ("after", each.after)]
    rows = [(kind, Point(0, s.rate, s.lo, s.hi)) for kind, s in sides if s is not None]
    return interval_bars(rows) if rows else None


def _training(curve: Curve) -> list[Point]:
    """Return the success rate of training episodes by update.

    The interval is that over an update's episodes for one run, and the range over several runs.
    """
    if len(curve.records) > 1:
        return with_gaps(thinned(means_of([by_step(r.metrics, SUCCESS) for r in curve.records])))
    (record,) = curve.records
    points = [Point(*pair) for pair in record.series(SUCCESS)]
    return with_gaps(with_intervals(points, dict(record.series(EPISODES))))


def with_intervals(points: Sequence[Point], episodes: Mapping[int, float]) -> list[Point]:
    """Add Wilson intervals to success rates by update.

    Args:
        points: success rates; x is the update.
        episodes: number of finished episodes by update; a point without it remains as it is.
    """
    counts = [episodes.get(int(point.x)) for point in points]
    return [
        Point(point.x, point.y, *training_interval(point.y, count)[1:]) if count else point
        for point, count in zip(points, counts, strict=True)
    ]


def with_gaps(points: list[Point]) -> list[Point]:
    """Insert a NaN point where steps are missing, so that no line is drawn across the gap.

    Steps are missing where the distance of two points exceeds the smallest distance, which is n
    if metrics are logged at every n-th step.
    """
    usual = min((b.x - a.x for a, b in pairwise(points)), default=0)
    gapped = points[:1]
    for a, b in pairwise(points):
        if b.x - a.x > usual:
            gapped.append(Point(a.x + usual, float("nan")))
        gapped.append(b)
    return gapped


def _evaluated(curve: Curve) -> list[Point]:
    """Return the success rates of evaluations by the update after which they were made.

    The interval is the Wilson interval for one run, and the range over several runs.
    """
    sides = [
        {
            step: side
            for _, step, results in _in_order(record)
            if (side := gain(None, results).after)
        }
        for record in curve.records
    ]
    if len(sides) == 1:
        return [Point(step, side.rate, side.lo, side.hi) for step, side in sides[0].items()]
    return means_of([{step: side.rate for step, side in each.items()} for each in sides])


def _in_order(record: RunRecord) -> Iterator[tuple[str, int, Sequence[EpisodeResult]]]:
    """Yield (label, update, episodes) of comparable evaluations, in the order of updates.

    The evaluation before training counts as update 0, the final one as the last update.
    """
    last = max((step for step, _ in record.series(SUCCESS)), default=0)
    at = {"before": 0, **({record.conclusion: last} if record.conclusion else {})}
    for label in record.evaluations:
        stem, _, count = label.partition("step_")
        if not stem and count.isdigit():
            at[label] = int(count)
    for label, step in sorted(at.items(), key=lambda pair: pair[1]):
        results = record.evaluations.get(label, [])
        # a run that was changed and resumed may have earlier evaluations under another protocol
        if results and comparable(results, record.after or record.before or ()):
            yield label, step, results
