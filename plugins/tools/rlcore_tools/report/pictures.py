"""Choose the charts of a run: success by update, metrics, gains. Knows no pages."""

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
"""Metrics drawn small, in this order, where a run has them; `{metric: what it is}`."""
APART = ("step", "time", "eval/", "sft/", "time/", *CURVES, *OTHER_NAMES)
"""Metrics, and beginnings of their names, that are shown elsewhere."""
SPENT = ("time/rollout", "time/update", "time/sync")
MOST_COLUMNS = 12  # of a strip
IMITATION = {"sft/train_loss": "training", "sft/val_loss": "validation"}
WIDE, NARROW, SMALL = (960, 320), (400, 300), (400, 200)


@dataclass(frozen=True)
class Curve:
    """Runs that are drawn as one: several, of other seeds, as their mean and a band.

    Attributes:
        name: for the legend.
        records: of the runs.
    """

    name: str
    records: Sequence[RunRecord]

    def points(self, metric: str) -> list[Point]:
        """A metric by update, with gaps where updates are missing."""
        if len(self.records) == 1:
            return with_gaps([Point(*pair) for pair in self.records[0].series(metric)])
        return with_gaps(means_of([dict(one.series(metric)) for one in self.records]))


def success_charts(curves: Sequence[Curve]) -> list[tuple[str, dict[str, Markup]]]:
    """`(what x is, wide and narrow)`: curves of training, markers of evaluations; by updates, env
    steps and minutes of training. Empty where nothing was trained."""
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
    """Success rates, wide and narrow."""
    return {
        kind: chart(
            series, width=width, height=height, label=f"success rate by {x_label}",
            x_label=x_label, y_range=(0.0, 1.0),
        )
        for kind, (width, height) in (("wide", WIDE), ("narrow", NARROW))
    }  # fmt: skip


def _counted(record: RunRecord, x_label: str) -> Mapping[int, float]:
    """`{update: x}`; the start is at 0."""
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
    """Points by update, at the mean x of the runs; a gap stays between its neighbours."""
    moved: list[Point] = []
    for point in points:
        at = [one[int(point.x)] for one in x if int(point.x) in one]
        if at or moved:
            moved.append(point._replace(x=fmean(at) if at else moved[-1].x))
    return moved


def metric_charts(curves: Sequence[Curve]) -> list[tuple[str, str, Markup | str]]:
    """`(what it is, metric, picture)` of the metrics that these runs have; of one that never
    changes, its value."""
    return [
        (what, metric, picture)
        for metric, what in CURVES.items()
        if (picture := _small(curves, metric, what)) is not None
    ]


def other_metrics(record: RunRecord) -> list[tuple[str, str, Markup | str]]:
    """Likewise of all others that were logged."""
    names = dict.fromkeys(name for line in record.metrics for name in line)
    shown = [name for name in names if not name.startswith(APART) and name != SUCCESS]
    curve = Curve("this run", [record])
    found = [("", name, _small([curve], name, name)) for name in sorted(shown)]
    return [(what, name, one) for what, name, one in found if one is not None]


def _small(curves: Sequence[Curve], metric: str, what: str) -> Markup | str | None:
    """A small chart; of a metric that never changes its value, in words; None: it has none."""
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
    """Success of each task over the evaluations of a run.

    Attributes:
        labels: of the evaluations, in order.
        rows: (task, rate in each; None where it was not played).
    """

    labels: Sequence[str]
    rows: Sequence[tuple[str, Sequence[float | None]]]


def task_strip(record: RunRecord) -> Strip | None:
    """None of fewer than three evaluations, which the table of tasks shows."""
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
    """Losses of supervised training."""
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
    sides = [("before", each.before), ("after", each.after)]
    rows = [(kind, Point(0, s.rate, s.lo, s.hi)) for kind, s in sides if s is not None]
    return interval_bars(rows) if rows else None


def _training(curve: Curve) -> list[Point]:
    """Success in training: of one run with the interval of each update's episodes."""
    if len(curve.records) > 1:
        return with_gaps(thinned(means_of([by_step(r.metrics, SUCCESS) for r in curve.records])))
    (record,) = curve.records
    points = [Point(*pair) for pair in record.series(SUCCESS)]
    return with_gaps(with_intervals(points, dict(record.series(EPISODES))))


def with_intervals(points: Sequence[Point], episodes: Mapping[int, float]) -> list[Point]:
    """Rates of updates, each with the interval of its episodes where their number is known."""
    counts = [episodes.get(int(point.x)) for point in points]
    return [
        Point(point.x, point.y, *training_interval(point.y, count)[1:]) if count else point
        for point, count in zip(points, counts, strict=True)
    ]


def with_gaps(points: list[Point]) -> list[Point]:
    """A NaN point where steps are missing, so that no line is drawn across. The
    usual distance of steps is the smallest one: metrics may be logged every n-th step."""
    usual = min((b.x - a.x for a, b in pairwise(points)), default=0)
    gapped = points[:1]
    for a, b in pairwise(points):
        if b.x - a.x > usual:
            gapped.append(Point(a.x + usual, float("nan")))
        gapped.append(b)
    return gapped


def _evaluated(curve: Curve) -> list[Point]:
    """Rates of evaluations at the update they were made after."""
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
    """(label, update, episodes) of the evaluations that can be compared."""
    last = max((step for step, _ in record.series(SUCCESS)), default=0)
    at = {"before": 0, **({record.conclusion: last} if record.conclusion else {})}
    for label in record.evaluations:
        stem, _, count = label.partition("step_")
        if not stem and count.isdigit():
            at[label] = int(count)
    for label, step in sorted(at.items(), key=lambda pair: pair[1]):
        results = record.evaluations.get(label, [])
        # others were played under other rules, before the run was changed
        if results and comparable(results, record.after or record.before or ()):
            yield label, step, results
