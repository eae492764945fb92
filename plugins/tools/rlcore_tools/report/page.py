"""Select and word the contents of report pages. Their layout is in `templates/`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined

from rlcore.api import protocol_difference
from rlcore.config import schema_tree
from rlcore.config.differences import differences
from rlcore.contracts.episodes import mean_infos
from rlcore.results.tables import failures, success_rows
from rlcore.terminal.text import format_duration, format_ranges, format_value
from rlcore_tools.failures import commands, has_policy
from rlcore_tools.report.clips import Shelf, link
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
    SUCCESS,
    Curve,
    gain_bars,
    imitation_chart,
    metric_charts,
    other_metrics,
    success_charts,
    task_strip,
)
from rlcore_tools.report.record import RunRecord, Values
from rlcore_tools.text import one_line, rounded

NOT_OF_THE_RECIPE = ("recipe",)
NOT_OF_A_COMPARISON = ("recipe", "runner.logger")
PARTS_OF_ROLLOUT = {"time/env": "simulation", "time/policy": "policy"}


def run_page(record: RunRecord, base: Path) -> str:
    """Return the HTML page of one run.

    Args:
        record: contents of the run folder.
        base: folder of the page; links are relative to it.
    """
    shelf = Shelf(record, base)
    changes = (
        None
        if record.recipe is None
        else differences(record.recipe, record.config, ignore=NOT_OF_THE_RECIPE)
    )
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
        tasks=[(each, gain_bars(each)) for each in tasks],
        groups=[(each, gain_bars(each)) for each in groups],
        means=means(record.before, record.after, record.task_groups) if len(tasks) > 1 else [],
        control=gain(record.before, record.evaluations.get("control")),
        infos=_infos(record),
        success=success_charts([Curve("training", [record])]),
        strip=task_strip(record),
        failed=_failed(record),
        said=record.summary or {},
        reached=list(((record.summary or {}).get("reached") or {}).items()),
        curves=metric_charts([Curve("this run", [record])]),
        others=other_metrics(record),
        imitation=imitation_chart(record),
        examples=shelf.examples(),
        changes=shelf.changes(),
        phases=_phases(record),
        recipe=" ".join(schema_tree.find(record.recipe or {}, "recipe.choices") or []),
        differing=changes,
        protocol=_protocol(record.protocol),
        versions=record.manifest.get("versions", {}),
        files=[
            (str(path.relative_to(record.folder.path)), link(path, base)) for path in _files(record)
        ],
    )


def comparison_page(records: Sequence[RunRecord], base: Path) -> str:
    """Return the HTML page that compares several runs with the first.

    Args:
        records: contents of the run folders, at least two.
        base: folder of the page; links are relative to it.
    """
    names = _names([record.folder.path for record in records])
    totals = [gain(record.before, record.after) for record in records]
    curves = _curves(records, names)
    rows = []
    for i, (record, total) in enumerate(zip(records, totals, strict=True)):
        report = record.folder.report
        rows.append(
            {
                "name": names[i],
                "colour": next(n for n, one in enumerate(curves) if record in one.records),
                "report": link(report, base) if report.is_file() else None,
                "facts": _facts(record),
                "total": total,
                "bars": gain_bars(total),
                "against": gain(records[0].after, record.after).difference if i else None,
            }
        )
    return render(
        "compare.html",
        title=f"{len(records)} runs compared",
        rows=rows,
        columns=columns(totals),
        paired=any(row["against"] for row in rows),
        reference=names[0],
        names=names,
        tasks=_task_table(records),
        drawn=[one.name for one in curves],
        success=success_charts(curves),
        curves=metric_charts(curves),
        differing=differences(*(r.config for r in records), ignore=NOT_OF_A_COMPARISON),
        unlike=_unlike(names, records),
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


# -- what is shown ------------------------------------------------------------------------------


def _facts(record: RunRecord) -> dict[str, Any]:
    """Return a run's main facts, for the head of its page and its row in a comparison."""
    updates = [step for step, _ in record.series(SUCCESS)]
    manifest = record.manifest
    return {
        "finished": record.summary is not None,
        "env": schema_tree.find(record.config, "env.train.env_type"),
        "model": schema_tree.find(record.config, "actor.model.model_type"),
        "algorithm": schema_tree.find(record.config, "algorithm.name"),
        "seed": schema_tree.find(record.config, "runner.seed"),
        "updates": max(updates, default=0),
        "started": str(manifest.get("started", "")).replace("T", " ")[:16],
        "commit": _commit(manifest),
        "seconds": sum(seconds for _, seconds in _phases(record)["phases"]),
        "caveats": list(dict.fromkeys([*record.doubts, *manifest.get("caveats", {}).values()])),
    }


def _infos(record: RunRecord) -> list[Mean]:
    """Return the means of the env's other episode metrics, before and after training."""
    sides = (record.before or (), record.after or ())
    return side_by_side(*(mean_infos(one.infos for one in side) for side in sides))


def _commit(manifest: Values) -> str:
    git = manifest.get("git")
    return "" if not git else git["commit"][:10] + (" with changes" if git["dirty"] else "")


def _phases(record: RunRecord) -> dict[str, Any]:
    """Return `{"phases": [(name, seconds)], "rollout": [(part, seconds)]}`.

    Phases that took no time are left out. The phases of a run without a summary are computed from
    its metrics.
    """
    if record.summary is not None:
        seconds = dict(record.summary["seconds"])
    else:
        seconds = {name: _sum(record, f"time/{name}") for name in ("rollout", "update")}
    parts = [(what, _sum(record, metric)) for metric, what in PARTS_OF_ROLLOUT.items()]
    return {
        "phases": [
            (name.removesuffix("_eval").replace("_", " "), spent)
            for name, spent in seconds.items()
            if spent
        ],
        "rollout": [(what, spent) for what, spent in parts if spent],
    }


def _sum(record: RunRecord, metric: str) -> float:
    return sum(value for _, value in record.series(metric))


def _protocol(protocol: Values) -> list[tuple[str, str]]:
    """Return (name, text) of each rule of an evaluation protocol; empty without a protocol."""
    if not protocol:
        return []
    lists = dict.fromkeys(
        (format_ranges(numbers, " to ", ", ") or "none")
        + (f", in {len(numbers)} episodes" if len({*numbers}) < len(numbers) else "")
        for numbers in protocol["trials"].values()
    )
    episodes = sum(len(numbers) for numbers in protocol["trials"].values())
    # files of earlier versions lack render_settings
    drawn: Values = protocol.get("facts", {}).get("render_settings", {})
    frames = ", ".join(f"{name} {format_value(value)}" for name, value in drawn.items())
    return [
        ("env", protocol["env"]),
        ("tasks", str(len(protocol["trials"]))),
        ("trials of a task", "; ".join(lists)),
        ("episodes", str(episodes)),
        ("time limit", f"{protocol['max_episode_steps']} env steps"),
        ("actions per decision", str(protocol["num_action_chunks"])),
        ("sampling", protocol["sampling"]),
        *([("frames", frames)] if frames else []),
    ]


def _files(record: RunRecord) -> list[Path]:
    """Return the files of a run that its page links to: existing text files, then mosaic videos."""
    folder = record.folder
    named = (folder.config, folder.recipe, folder.manifest, folder.metrics, folder.summary)
    mosaics = sorted((folder.path / "video").glob("*/*.mp4"))
    return [path for path in named if path.is_file()] + mosaics


def _failed(record: RunRecord) -> list[tuple[str, str, list[str]]]:
    """Return (task, "FAILED of PLAYED", commands that record the failed episodes) by task.

    The task with the lowest success rate is first. The list is empty if the run has no policy that
    can be played again.
    """
    after = record.after or []
    lost = failures(after)
    if not lost or not has_policy(record.folder):
        return []
    found: dict[str, list[str]] = {}
    for one, line in zip(lost, commands(record.folder, lost), strict=True):
        found.setdefault(one.task, []).append(line)
    played = Counter(one.task for one in after)
    return [(task, f"{len(some)} of {played[task]}", some) for task, some in found.items()]


# -- comparisons --------------------------------------------------------------------------------


def _names(paths: Sequence[Path]) -> list[str]:
    """Return the shortest suffixes of paths, equal in their number of parts, that are unique."""
    for length in range(1, max(len(path.parts) for path in paths)):
        names = ["/".join(path.parts[-length:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in paths]


def _curves(records: Sequence[RunRecord], names: Sequence[str]) -> list[Curve]:
    """Group runs into curves: runs whose configurations differ only in the seed share one.

    Differences in recipe and logger are ignored.
    """
    found: list[list[int]] = []
    for i, record in enumerate(records):
        same = (g for g in found if not differences(
            records[g[0]].config, record.config, ignore=(*NOT_OF_A_COMPARISON, "runner.seed")
        ))  # fmt: skip
        group = next(same, None)
        if group is None:
            found.append([i])
        else:
            group.append(i)
    return [
        Curve(", ".join(names[i] for i in group), [records[i] for i in group]) for group in found
    ]


def _unlike(names: Sequence[str], records: Sequence[RunRecord]) -> list[tuple[str, str]]:
    """Return (run, difference) of each run whose evaluation protocol differs from the first's."""
    return [
        (name, protocol_difference(records[0].protocol, record.protocol))
        for name, record in zip(names, records, strict=True)
        if record.protocol != records[0].protocol
    ]


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
    found = dict.fromkeys(key for side in sides for key in side)
    return [
        TaskRow(kind, label, tuple(side.get((kind, label)) for side in sides))
        for wanted in ("task", "group", "average")
        for kind, label in found
        if kind == wanted
    ]
