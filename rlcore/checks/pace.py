"""Estimate how long a run takes, from the speed of an earlier run of the same components. Light."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rlcore.checks.doctor_rows import Row, row
from rlcore.checks.facts import Facts
from rlcore.config import schema_tree
from rlcore.config.catalog import COMPONENT_GROUPS, EXPERIMENT
from rlcore.config.recipes import read_scalars
from rlcore.contracts.errors import UserError
from rlcore.files.reading import parse_json, read_json, read_lines
from rlcore.runs.folder import METRICS, RunFolder
from rlcore.utils.durations import update_seconds

LATEST = 20  # last lines of an earlier run's metrics from which its speed is estimated
LOOKED_AT = 50  # latest runs of a folder that are compared
_TYPES = ("env.train.env_type", "actor.model.model_type", "algorithm.name")


def time_row(facts: Facts) -> Row:
    """Estimate the duration from the latest run with the same env, tasks, model and algorithm."""
    config = facts.config
    updates = config.runner.max_epochs
    folder = Path(config.runner.logger.log_path)
    for run in _latest(folder):
        seconds = _update_seconds(run) if updates > 0 and _is_alike(run, facts) else []
        if seconds:
            mean = sum(seconds) / len(seconds)
            total = f"about {updates * mean / 3600:.1f} h: {updates} updates of {mean:.1f} s"
            return row("time", f"{total}, as in {run}; evaluations not included")
    return row("time", f"not known: no run of this env, model and algorithm in {folder}")


def _latest(folder: Path) -> Iterator[Path]:
    """Yield the runs in a folder whose metrics were written last, the latest first."""
    logs = [log for log in folder.glob(f"*/{METRICS}") if log.is_file()]
    logs.sort(key=lambda log: log.stat().st_mtime, reverse=True)
    yield from (log.parent for log in logs[:LOOKED_AT])


def _is_alike(run: Path, facts: Facts) -> bool:
    """Return whether a run has the same components and the same tasks of training."""
    try:
        saved = read_scalars(RunFolder(run).config)
        tasks = read_json(RunFolder(run).manifest)["sentences"]["train"]
    except (UserError, OSError, ValueError, TypeError, KeyError):  # of a run that was killed
        return False
    config = facts.config
    types = all(
        schema_tree.find(saved, path) == schema_tree.value_of(config, path) for path in _TYPES
    )
    chosen = _choices(saved.get("recipe")) == _choices({"choices": config.recipe.choices})
    return types and chosen and list(tasks) == list(facts.envs["train"].tasks)


def _choices(recipe: Mapping[str, Any] | Any) -> list[str]:
    """Return the choices of a recipe and of components, sorted; empty if none are recorded."""
    choices = recipe.get("choices") if isinstance(recipe, Mapping) else None
    groups = (EXPERIMENT, *COMPONENT_GROUPS)
    return sorted(
        str(choice) for choice in choices or () if str(choice).split("=")[0].split("/")[0] in groups
    )


def _update_seconds(run: Path) -> list[float]:
    """Return the seconds of the last updates of a run; empty if its metrics can't be read."""
    try:
        last = list(read_lines(RunFolder(run).metrics))[-LATEST:]
        lines = [parse_json(line) for line in last if line]
        return [update_seconds(line) for line in lines if "time/update" in line]
    except (OSError, ValueError, TypeError, KeyError):  # of a run that was killed
        return []
