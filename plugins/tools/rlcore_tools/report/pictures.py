"""Choose the charts of a run: success by update, metrics, gains. Knows no pages."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from markupsafe import Markup

from rlcore.results.tables import comparable
from rlcore_tools.report.chart import Point, Series, chart, interval_bars
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
IMITATION = {"sft/train_loss": "training", "sft/val_loss": "validation"}
WIDE, NARROW, SMALL = (960, 320), (400, 300), (400, 200)


def success_charts(records: Sequence[RunRecord], names: Sequence[str]) -> dict[str, Markup] | None:
    """Success by update, wide and narrow: curves of training, markers of evaluations."""
    series = []
    for i, (record, name) in enumerate(zip(records, names, strict=True)):
        lone = len(records) == 1
        points = _training(record)
        if points:
            series.append(Series(name, points, colour=i))
        evaluated = _evaluated(record)
        if evaluated:
            label = "evaluation" if lone else f"{name}, evaluation"
            series.append(Series(label, evaluated, colour=i + lone, joined=False))
    if not any(one.joined for one in series):  # nothing was trained
        return None
    label = "success rate by update"
    return {
        kind: chart(series, width=width, height=height, label=label, y_range=(0.0, 1.0))
        for kind, (width, height) in (("wide", WIDE), ("narrow", NARROW))
    }


def metric_charts(
    records: Sequence[RunRecord], names: Sequence[str]
) -> list[tuple[str, str, Markup]]:
    """`(what it is, metric, picture)` of the metrics that these runs have."""
    found = []
    for metric, what in CURVES.items():
        series = [
            Series(name, points, colour=i)
            for i, (record, name) in enumerate(zip(records, names, strict=True))
            if (points := with_gaps([Point(*pair) for pair in record.series(metric)]))
        ]
        if series:
            width, height = SMALL
            picture = chart(series, width=width, height=height, label=what)
            found.append((what, metric, picture))
    return found


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


def _training(record: RunRecord) -> list[Point]:
    episodes = dict(record.series(EPISODES))
    points = []
    for step, rate in record.series(SUCCESS):
        around = training_interval(rate, episodes[step]) if step in episodes else None
        points.append(Point(step, rate, *(around[1:] if around else ())))
    return with_gaps(points)


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


def _evaluated(record: RunRecord) -> list[Point]:
    """Rates of evaluations at the update they were made after."""
    last = max((step for step, _ in record.series(SUCCESS)), default=0)
    at = {"before": 0, **({record.conclusion: last} if record.conclusion else {})}
    for label in record.evaluations:
        stem, _, number = label.partition("step_")
        if not stem and number.isdigit():
            at[label] = int(number)
    points = []
    for label, step in sorted(at.items(), key=lambda pair: pair[1]):
        results = record.evaluations.get(label, [])
        if not comparable(results, record.after or record.before or ()):
            continue  # played under other rules, before the run was changed
        side = gain(None, results).after
        if side is not None:
            points.append(Point(step, side.rate, side.lo, side.hi))
    return points
