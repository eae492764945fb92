"""Select and word the contents of report pages. Their layout is in `templates/`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined

from rlcore.api import protocol_difference
from rlcore.config.differences import differences
from rlcore.config.schema_tree import find
from rlcore.contracts.episodes import mean_infos
from rlcore.runs.tables import failures, success_rows
from rlcore.utils.text import format_duration, format_ranges, format_value
from rlcore_tools.failures import commands, has_policy
from rlcore_tools.report.benchmark import read_benchmarks
from rlcore_tools.report.clips import ClipSelection, link
from rlcore_tools.report.curves import Curve
from rlcore_tools.report.figures import (
    Mean,
    columns,
    gain,
    gains_by_group,
    gains_by_task,
    means,
    side_by_side,
)
from rlcore_tools.report.pictures import (
    gain_bars,
    imitation_chart,
    metric_charts,
    other_metrics,
    success_charts,
    task_strip,
)
from rlcore_tools.runs.comparison import UNCOMPARED
from rlcore_tools.runs.record import RunRecord, Values
from rlcore_tools.runs.row import Row
from rlcore_tools.runs.settings import grouped
from rlcore_tools.text import one_line, rounded, unique_suffixes


def run_page(record: RunRecord, base: Path) -> str:
    """Return the HTML page of one run.

    Args:
        record: contents of the run folder.
        base: folder of the page; links are relative to it.
    """
    clips = ClipSelection(record, base)
    changes = (
        None
        if record.recipe is None
        else differences(record.recipe, record.config, ignore=("recipe",))
    )
    control = record.evaluations.get("control")
    total = gain(record.before, record.after)
    tasks = gains_by_task(record.before, record.after)
    groups = gains_by_group(record.before, record.after, record.task_groups)
    return render(
        "run.html",
        title=record.folder.name,
        record=record,
        facts=_facts(record),
        total=total,
        columns=columns([total]),
        benchmarks=read_benchmarks(record.folder.evaluations),
        tasks=[(task, gain_bars(task)) for task in tasks],
        groups=[(group, gain_bars(group)) for group in groups],
        means=means(record.before, record.after, record.task_groups) if len(tasks) > 1 else [],
        control=gain(record.before, control.episodes if control else None),
        infos=_infos(record),
        success=success_charts([Curve("training", [record])]),
        explores=bool(find(record.config, "algorithm.explore")),
        strip=task_strip(record),
        failed=_failed_by_task(record),
        summary=record.summary or {},
        reached=list(((record.summary or {}).get("reached") or {}).items()),
        curves=metric_charts([Curve("this run", [record])]),
        others=other_metrics(record),
        imitation=imitation_chart(record),
        validated=bool(record.series("sft/val_loss")),
        examples=clips.examples(),
        changes=clips.changes(),
        phases=_phases(record),
        recipe=" ".join(find(record.recipe or {}, "recipe.choices") or []),
        differing=changes,
        protocol=_protocol(record.protocol),
        versions=record.manifest.get("versions", {}),
        files=[
            (str(path.relative_to(record.folder.path)), link(path, base)) for path in _files(record)
        ],
    )


def comparison_page(rows: Sequence[Row], base: Path) -> str:
    """Return the HTML page that compares several runs with the first.

    Args:
        rows: rows of the runs, at least two.
        base: folder of the page; links are relative to it.
    """
    records = [row.record for row in rows]
    names = unique_suffixes([str(row.folder) for row in rows], "/")
    totals = [gain(record.before, record.after) for record in records]
    settings = [setting.rows for setting in grouped(rows)]
    members = [[i for i, row in enumerate(rows) if row in group] for group in settings]
    curves = [
        Curve(", ".join(names[i] for i in group), [records[i] for i in group]) for group in members
    ]
    reports = [record.folder.report for record in records]
    entries = [
        {
            "name": names[i],
            "colour": next(colour for colour, group in enumerate(members) if i in group),
            "report": link(reports[i], base) if reports[i].is_file() else None,
            "facts": _facts(record),
            "total": totals[i],
            "bars": gain_bars(totals[i]),
            "against": gain(records[0].after, record.after).difference if i else None,
        }
        for i, record in enumerate(records)
    ]
    return render(
        "compare.html",
        title=f"{len(records)} runs compared",
        rows=entries,
        columns=columns(totals),
        paired=any(entry["against"] for entry in entries),
        reference=names[0],
        names=names,
        tasks=_task_table(records),
        drawn=[curve.name for curve in curves],
        success=success_charts(curves),
        curves=metric_charts(curves),
        differing=differences(*(record.config for record in records), ignore=UNCOMPARED),
        unlike=[
            (name, protocol_difference(records[0].protocol, record.protocol))
            for name, record in zip(names, records, strict=True)
            if record.protocol != records[0].protocol
        ],
        evaluated_on=" or ".join(dict.fromkeys(record.evaluated_on for record in records)),
    )


# -- rendering ----------------------------------------------------------------------------------


def render(template: str, **context: Any) -> str:
    """Return a page rendered from a template.

    Characters that UTF-8 can't encode, as in the name of a folder, become backslash escapes.

    Args:
        template: file name in `templates/`.
        context: the template's variables.
    """
    page = _templates().get_template(template).render(**context)
    return page.encode(errors="backslashreplace").decode()


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader(__package__, "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Callable[..., str]] = {
        "rate": lambda value: f"{value:.3f}",
        "percent": lambda value: f"{value:.2f}",
        "signed": lambda value: f"{value:+.3f}".replace("-", "\N{MINUS SIGN}"),
        "duration": format_duration,
        "value": format_value,
        "line": one_line,
        "setting": rounded,
    }
    environment.filters |= filters
    return environment


# -- contents ----------------------------------------------------------------------------------


def _facts(record: RunRecord) -> dict[str, Any]:
    """Return a run's main facts, for the head of its page and its row in a comparison."""
    manifest = record.manifest
    return {
        "finished": record.summary is not None,
        "env": find(record.config, "env.train.env_type"),
        "model": find(record.config, "actor.model.model_type"),
        "algorithm": find(record.config, "algorithm.name"),
        "seed": find(record.config, "runner.seed"),
        "updates": record.updates,
        "started": str(manifest.get("started", "")).replace("T", " ")[:16],
        "commit": record.commit + (" with changes" if find(manifest, "git.dirty") else ""),
        "seconds": sum(seconds for _, seconds in _phases(record)),
        "caveats": list(dict.fromkeys([*record.doubts, *manifest.get("caveats", {}).values()])),
    }


def _infos(record: RunRecord) -> list[Mean]:
    """Return the means of the env's other episode metrics, before and after training."""
    sides = (record.before or (), record.after or ())
    return side_by_side(*(mean_infos(result.infos for result in side) for side in sides))


def _phases(record: RunRecord) -> list[tuple[str, float]]:
    """Return (name, seconds) of each phase that took time.

    The phases of a run without a summary are computed from its metrics.
    """
    seconds = (record.summary or {}).get("seconds") or {
        name: sum(value for _, value in record.series(f"time/{name}"))
        for name in ("rollout", "update")
    }
    return [
        (name.removesuffix("_eval").replace("_", " "), spent)
        for name, spent in seconds.items()
        if spent
    ]


def _protocol(protocol: Values) -> list[tuple[str, str]]:
    """Return (name, text) of each rule of an evaluation protocol; empty without a protocol."""
    if not protocol:
        return []
    trials = protocol["trials"]
    lists = dict.fromkeys(
        (format_ranges(numbers, " to ", ", ") or "none")
        + (f", in {len(numbers)} episodes" if len({*numbers}) < len(numbers) else "")
        for numbers in trials.values()
    )
    rendering: Values = find(protocol, "facts.render_settings", {})
    frames = ", ".join(f"{name} {format_value(value)}" for name, value in rendering.items())
    return [
        ("env", protocol["env"]),
        ("tasks", str(len(trials))),
        ("trials of a task", "; ".join(lists)),
        ("episodes", str(sum(map(len, trials.values())))),
        ("time limit", f"{protocol['max_episode_steps']} env steps"),
        ("actions per decision", str(protocol["num_action_chunks"])),
        ("sampling", protocol["sampling"]),
        *([("frames", frames)] if frames else []),
    ]


def _files(record: RunRecord) -> list[Path]:
    """Return the files of a run that its page links to: existing text files, then mosaic videos."""
    folder = record.folder
    texts = (folder.config, folder.recipe, folder.manifest, folder.metrics, folder.summary)
    mosaics = sorted((folder.path / "video").glob("*/*.mp4"))
    return [path for path in texts if path.is_file()] + mosaics


def _failed_by_task(record: RunRecord) -> list[tuple[str, str, list[str]]]:
    """Return (task, "FAILED of PLAYED", commands that record the failed episodes) by task.

    The task with the lowest success rate is first. The list is empty if the run has no policy that
    can be played again.
    """
    after = record.after or []
    failed = failures(after)
    if not failed or not has_policy(record.folder):
        return []
    by_task: dict[str, list[str]] = {}
    for result, command in zip(failed, commands(record.folder, failed), strict=True):
        by_task.setdefault(result.task, []).append(command)
    episodes_by_task = Counter(result.task for result in after)
    return [
        (task, f"{len(lines)} of {episodes_by_task[task]}", lines)
        for task, lines in by_task.items()
    ]


# -- comparisons --------------------------------------------------------------------------------


class TaskRow(NamedTuple):
    """Success rates of a task, group or average in each run's final evaluation.

    Attributes:
        kind: "task", "group" or "average".
        label: name of the task, group or average.
        rates: one rate per run; None if the run did not evaluate it.
    """

    kind: str
    label: str
    rates: tuple[float | None, ...]


def _task_table(records: Sequence[RunRecord]) -> list[TaskRow]:
    sides = [
        {(row.kind, row.label): row.rate for row in success_rows(r.after, r.task_groups)}
        if r.after
        else {}
        for r in records
    ]
    labels = dict.fromkeys(key for side in sides for key in side)
    return [
        TaskRow(kind, label, tuple(side.get((kind, label)) for side in sides))
        for section in ("task", "group", "average")
        for kind, label in labels
        if kind == section
    ]
