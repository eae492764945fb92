"""From facts to pages: what is shown, in which words. How it looks stands in `templates/`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from rlcore.config.differences import differences
from rlcore.loop.statistics import paired_difference
from rlcore.loop.tables import EpisodeResult, success_by_start
from rlcore.track.report.chart import Point, Series, chart, interval_bars
from rlcore.track.report.clips import Shelf, link
from rlcore.track.report.figures import Gain, gain, gains_by_task, training_interval
from rlcore.track.report.record import RunRecord, Values

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
NOT_OF_THE_RECIPE = ("recipe",)
NOT_OF_A_COMPARISON = ("recipe", "runner.logger")
PARTS_OF_ROLLOUT = {"time/env": "simulation", "time/policy": "policy"}
WIDE, NARROW, SMALL = (960, 320), (400, 300), (400, 200)


def run_page(record: RunRecord, base: Path) -> str:
    """The page of one run.

    Args:
        record: what its folder holds.
        base: folder of the page, for links.
    """
    shelf = Shelf(record, base)
    changes = (
        None
        if record.recipe is None
        else differences(record.recipe, record.config, ignore=NOT_OF_THE_RECIPE)
    )
    return _render(
        "run.html",
        title=record.folder.name,
        record=record,
        facts=_facts(record),
        total=gain(record.before, record.after),
        tasks=[(each, _bars(each)) for each in gains_by_task(record.before, record.after)],
        control=gain(record.before, record.evaluations.get("control")),
        success=_charts([record], ["training"]),
        curves=_curves([record], ["this run"]),
        imitation=_imitation(record),
        examples=shelf.examples(),
        changes=shelf.changes(),
        phases=_phases(record),
        recipe=_recipe_name(record),
        differing=changes,
        protocol=_protocol(record.manifest),
        versions=record.manifest.get("versions", {}),
        files=[
            (str(path.relative_to(record.folder.path)), link(path, base)) for path in _files(record)
        ],
    )


def comparison_page(records: Sequence[RunRecord], base: Path) -> str:
    """The page of several runs.

    Args:
        records: what their folders hold, at least two.
        base: folder of the page, for links.
    """
    names = _names([record.folder.path for record in records])
    protocols = [record.manifest.get("evaluation_protocol") for record in records]
    rows = []
    for i, record in enumerate(records):
        total = gain(record.before, record.after)
        report = record.folder.report
        rows.append(
            {
                "name": names[i],
                "colour": i,
                "report": link(report, base) if report.is_file() else None,
                "facts": _facts(record),
                "total": total,
                "bars": _bars(total),
                "against": _against(records[0], record) if i else None,
            }
        )
    return _render(
        "compare.html",
        title=f"{len(records)} runs compared",
        rows=rows,
        reference=names[0],
        names=names,
        tasks=_task_table(records),
        success=_charts(records, names),
        curves=_curves(records, names),
        differing=differences(*(r.config for r in records), ignore=NOT_OF_A_COMPARISON),
        same_protocol=all(protocol == protocols[0] for protocol in protocols),
    )


# -- rendering ----------------------------------------------------------------------------------


def _render(template: str, **context: Any) -> str:
    return _templates().get_template(template).render(**context)


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader(__package__, "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "rate": lambda value: f"{value:.3f}",
        "signed": lambda value: f"{value:+.3f}".replace("-", "\N{MINUS SIGN}"),
        "duration": duration,
        "value": value_text,
    }
    return environment


def duration(seconds: float) -> str:
    """`0.4 s`, `12 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def value_text(value: Any) -> str:
    """A value of a configuration as one would write it on the command line."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list):
        return f"[{', '.join(map(value_text, value))}]"
    return str(value)


# -- what is shown ------------------------------------------------------------------------------


def _facts(record: RunRecord) -> dict[str, Any]:
    """A run in a few words, for the head of a page and a row of a comparison."""
    updates = [step for step, _ in record.series(SUCCESS)]
    manifest = record.manifest
    return {
        "finished": record.summary is not None,
        "env": _value(record.config, "env.train.env_type"),
        "model": _value(record.config, "actor.model.model_type"),
        "algorithm": _value(record.config, "algorithm.name"),
        "seed": _value(record.config, "runner.seed"),
        "updates": max(updates, default=0),
        "started": str(manifest.get("started", "")).replace("T", " ")[:16],
        "commit": _commit(manifest),
        "seconds": sum(seconds for _, seconds in _phases(record)["phases"]),
    }


def _commit(manifest: Values) -> str:
    git = manifest.get("git")
    return "" if not git else git["commit"][:10] + (" with changes" if git["dirty"] else "")


def _value(values: Values, path: str) -> Any:
    """A value by its dotted path; None where a configuration of another version has none."""
    for name in path.split("."):
        if not isinstance(values, dict) or name not in values:
            return None
        values = values[name]
    return values


def _recipe_name(record: RunRecord) -> str:
    return " ".join(_value(record.config, "recipe.choices") or [])


def _charts(records: Sequence[RunRecord], names: Sequence[str]) -> dict[str, Markup] | None:
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
    if not series:
        return None
    label = "success rate by update"
    return {
        kind: chart(series, width=width, height=height, label=label, y_range=(0.0, 1.0))
        for kind, (width, height) in (("wide", WIDE), ("narrow", NARROW))
    }


def _training(record: RunRecord) -> list[Point]:
    episodes = dict(record.series(EPISODES))
    points = []
    for step, rate in record.series(SUCCESS):
        around = training_interval(rate, episodes[step]) if step in episodes else None
        points.append(Point(step, rate, *(around[1:] if around else ())))
    return _with_gaps(points)


def _with_gaps(points: list[Point]) -> list[Point]:
    """A point that is no number where steps are missing, so that no line is drawn across. The
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
        side = gain(None, record.evaluations.get(label)).after
        if side is not None:
            points.append(Point(step, side.rate, side.lo, side.hi))
    return points


def _curves(records: Sequence[RunRecord], names: Sequence[str]) -> list[tuple[str, str, Markup]]:
    """`(what it is, metric, picture)` of the metrics that these runs have."""
    found = []
    for metric, what in CURVES.items():
        series = [
            Series(name, points, colour=i)
            for i, (record, name) in enumerate(zip(records, names, strict=True))
            if (points := _with_gaps([Point(*pair) for pair in record.series(metric)]))
        ]
        if series:
            width, height = SMALL
            picture = chart(series, width=width, height=height, label=what)
            found.append((what, metric, picture))
    return found


def _imitation(record: RunRecord) -> Markup | None:
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


def _bars(each: Gain) -> Markup | None:
    sides = [("before", each.before), ("after", each.after)]
    rows = [(kind, Point(0, s.rate, s.lo, s.hi)) for kind, s in sides if s is not None]
    return interval_bars(rows) if rows else None


def _phases(record: RunRecord) -> dict[str, Any]:
    """`{"phases": [(name, seconds)], "rollout": [(part, seconds)]}`; of a run without summary
    what its metrics tell."""
    if record.summary is not None:
        seconds = dict(record.summary["seconds"])
    else:
        seconds = {name: _sum(record, f"time/{name}") for name in ("rollout", "update")}
    parts = [(what, _sum(record, metric)) for metric, what in PARTS_OF_ROLLOUT.items()]
    return {
        "phases": [(name.replace("_", " "), spent) for name, spent in seconds.items() if spent],
        "rollout": [(what, spent) for what, spent in parts if spent],
    }


def _sum(record: RunRecord, metric: str) -> float:
    return sum(value for _, value in record.series(metric))


def _protocol(manifest: Values) -> list[tuple[str, str]]:
    """The protocol of evaluations in words; empty where the manifest has none."""
    protocol = manifest.get("evaluation_protocol")
    if not protocol:
        return []
    lists = Counter(ranges(numbers) for numbers in protocol["trials"].values())
    episodes = sum(len(numbers) for numbers in protocol["trials"].values())
    return [
        ("env", protocol["env"]),
        ("tasks", str(len(protocol["trials"]))),
        ("trials of a task", "; ".join(lists)),
        ("episodes", str(episodes)),
        ("time limit", f"{protocol['max_episode_steps']} env steps"),
        ("actions per decision", str(protocol["num_action_chunks"])),
        ("sampling", protocol["sampling"]),
    ]


def ranges(numbers: Iterable[int]) -> str:
    """`1, 2, 3, 7` -> `1 to 3, 7`."""
    runs: list[list[int]] = []
    for n in sorted(numbers):
        if runs and n == runs[-1][1] + 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    return ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in runs) or "none"


def _files(record: RunRecord) -> list[Path]:
    """What else the folder holds that one may want to open: mosaics last."""
    folder = record.folder
    named = (folder.config, folder.recipe, folder.manifest, folder.metrics, folder.summary)
    mosaics = sorted((folder.path / "video").glob("*/*.mp4"))
    return [path for path in named if path.is_file()] + mosaics


# -- comparisons --------------------------------------------------------------------------------


def _names(paths: Sequence[Path]) -> list[str]:
    """The shortest ends of paths that tell them apart."""
    for length in range(1, max(len(path.parts) for path in paths)):
        names = ["/".join(path.parts[-length:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in paths]


def _against(reference: RunRecord, record: RunRecord) -> Any:
    """After - the first run's after, paired; None unless both visited the same starts."""
    first, last = _starts(reference.after), _starts(record.after)
    if not first or first.keys() != last.keys():
        return None
    return paired_difference(first, last)


def _starts(results: Sequence[EpisodeResult] | None) -> dict[tuple[str, int], bool]:
    return success_by_start(results) if results else {}


@dataclass(frozen=True)
class TaskRow:
    """Success of a task after training, one a run; None where it was not evaluated."""

    task: str
    rates: tuple[float | None, ...]


def _task_table(records: Sequence[RunRecord]) -> list[TaskRow]:
    sides = [
        {each.label: each.after.rate for each in gains_by_task(None, r.after) if each.after}
        for r in records
    ]
    tasks = sorted({task for side in sides for task in side})
    return [TaskRow(task, tuple(side.get(task) for side in sides)) for task in tasks]
