"""Describe one run: `rlcore runs show`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from rlcore.config.differences import differences
from rlcore.config.schema_tree import find
from rlcore.contracts.errors import UserError
from rlcore.utils.text import abbreviate_list, format_duration, format_value
from rlcore_tools.runs.folders import row_of
from rlcore_tools.runs.row import Row
from rlcore_tools.runs.table import difference, note, progress, rate

VERSIONS = ("rlcore", "torch")
MOST_CHANGES = 20  # changes from the recipe that are shown


def values_of(folder: Path) -> dict[str, Any]:
    """Return the columns of a run's row, its checkpoints, versions and full configuration."""
    row = row_of(folder)
    return {
        **row.as_values(),
        "checkpoints": _checkpoints(folder),
        "versions": row.versions,
        "config": row.config,
    }


def lines_of(folder: Path) -> list[str]:
    """Return lines that describe a run, its changes from the recipe, and the next command."""
    row = row_of(folder)
    env, model, algorithm = map(
        row.value, ("env.train.env_type", "actor.model.model_type", "algorithm.name")
    )
    facts = {
        "folder": str(folder),
        "state": ": ".join(filter(None, (row.state, note(row)))),
        "recipe": " ".join(find(row.config, "recipe.choices") or []),
        "trains": f"{model} on {env}" + (f", {algorithm}" if algorithm else ""),
        "seed": "" if row.seed is None else str(row.seed),
        "started": f"{row.started.replace('T', ' ')} UTC" if row.started else "",
        "progress" if row.sft_step is not None else "updates": progress(row, " of "),
        "time": "" if row.seconds is None else format_duration(row.seconds),
        "success before": rate(row.before),
        "success after": rate(row.after),
        "difference": f"{difference(row.difference)} on the same starts" if row.difference else "",
        "checkpoints": abbreviate_list(_checkpoints(folder)),
        "commit": row.commit,
        "versions": ", ".join(
            f"{name} {row.versions[name]}" for name in VERSIONS if name in row.versions
        ),
    }
    width = max(map(len, facts))
    lines = [f"{name:{width}}  {text}" for name, text in facts.items() if text]
    return [*lines, *_changes(row), *_next_command(row)]


def _checkpoints(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "checkpoints").glob("step_*"))


def _changes(row: Row) -> list[str]:
    """Return lines with the values that differ from the recipe, `MOST_CHANGES` at most."""
    try:
        recipe = row.record.recipe
    except UserError as error:
        return [f"recipe.yaml can't be read: {error.message}"]
    if recipe is None:
        return []
    lines = [
        f"  {key.path}: {format_value(key.values[0])} -> {format_value(key.values[1])}"
        for key in differences(recipe, row.config, ignore=("recipe",))
    ]
    more = [f"  and {len(lines) - MOST_CHANGES} more"] if len(lines) > MOST_CHANGES else []
    return [*(["changed from its recipe:"] if lines else []), *lines[:MOST_CHANGES], *more]


def _next_command(row: Row) -> list[str]:
    folder = shlex.quote(str(row.folder))
    if row.state in ("interrupted", "failed"):
        return [f"resume it: rlcore resume {folder}"]
    return [f"its report: rlcore report {folder}"] if row.state == "finished" else []
