"""Describe one run: `rlcore runs show`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from rlcore.config.differences import differences
from rlcore.config.schema_tree import find
from rlcore.files.reading import UnreadableError
from rlcore.terminal.text import abbreviate_list, format_duration, format_value
from rlcore_tools.runs.folders import row_of
from rlcore_tools.runs.reading import Values, read_config, read_mapping
from rlcore_tools.runs.row import Row
from rlcore_tools.runs.table import difference, note, rate

VERSIONS = ("rlcore", "torch")
MOST = 20  # changes from the recipe that are shown


def values_of(folder: Path) -> dict[str, Any]:
    """Return the columns of a run's row, its checkpoints, versions and full configuration."""
    row = row_of(folder)
    return {
        **row.as_values(),
        "checkpoints": checkpoints_of(folder),
        "versions": versions_of(folder),
        "config": row.config,
    }


def lines_of(folder: Path) -> list[str]:
    """Return lines that describe a run, its changes from the recipe, and the next command."""
    row = row_of(folder)
    config, versions = row.config, versions_of(folder)
    env, model, algorithm = (
        find(config, key) for key in ("env.train.env_type", "actor.model.model_type",
                                      "algorithm.name")
    )  # fmt: skip
    said = {
        "folder": str(folder),
        "state": ": ".join(filter(None, (row.state, note(row)))),
        "recipe": " ".join(find(config, "recipe.choices") or []),
        "trains": f"{model} on {env}" + (f", {algorithm}" if algorithm else ""),
        "seed": "" if row.seed is None else str(row.seed),
        "started": f"{row.started.replace('T', ' ')} UTC" if row.started else "",
        "updates": _updates(row),
        "time": "" if row.seconds is None else format_duration(row.seconds),
        "success before": rate(row.before),
        "success after": rate(row.after),
        "difference": f"{difference(row.difference)} on the same starts" if row.difference else "",
        "checkpoints": abbreviate_list(checkpoints_of(folder)),
        "commit": row.commit,
        "versions": ", ".join(f"{name} {versions[name]}" for name in VERSIONS if name in versions),
    }
    width = max(map(len, said))
    lines = [f"{name:{width}}  {text}" for name, text in said.items() if text]
    return [*lines, *_changes(folder, config), *_next(row)]


def versions_of(folder: Path) -> dict[str, str]:
    """Return the versions of packages that a run recorded, with Python and the device, by name.

    The result is empty if the manifest is missing or can't be read.
    """
    try:
        manifest = read_mapping(folder / "manifest.json") or {}
    except (OSError, UnreadableError):  # the run's row has the error
        return {}
    versions = manifest.get("versions")
    own = {name: str(manifest[name]) for name in ("python", "device") if name in manifest}
    return {**own, **(versions if isinstance(versions, dict) else {})}


def checkpoints_of(folder: Path) -> list[str]:
    """Return the names of a run's checkpoints, sorted."""
    return sorted(path.name for path in (folder / "checkpoints").glob("step_*"))


def _updates(row: Row) -> str:
    if row.update is None:
        return ""
    return str(row.update) if row.updates is None else f"{row.update} of {row.updates}"


def _changes(folder: Path, config: Values) -> list[str]:
    """Return lines with the values that differ from the recipe, `MOST` at most."""
    try:
        recipe = read_config(folder / "recipe.yaml")
    except FileNotFoundError:
        return []
    except (OSError, UnreadableError) as error:
        return [f"recipe.yaml can't be read: {error}"]
    found = differences(recipe, config, ignore=("recipe",))
    lines = [
        f"  {one.path}: {format_value(one.values[0])} -> {format_value(one.values[1])}"
        for one in found
    ]
    more = [f"  and {len(lines) - MOST} more"] if len(lines) > MOST else []
    return [*(["changed from its recipe:"] if lines else []), *lines[:MOST], *more]


def _next(row: Row) -> list[str]:
    folder = shlex.quote(str(row.folder))
    if row.state in ("interrupted", "failed"):
        return [f"go on with it: rlcore resume {folder}"]
    return [f"its report: rlcore report {folder}"] if row.state == "finished" else []
