"""Group runs into settings, whose runs differ only in the seed."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from rlcore.config.differences import differences
from rlcore.config.schema_tree import leaves
from rlcore_tools.runs.record import Values
from rlcore_tools.runs.row import Row
from rlcore_tools.text import rounded

MACHINE = "cluster"
IGNORED = (
    "recipe",
    "runner.seed",
    "runner.logger",
    "runner.resume_dir",
    "runner.auto_resume",
    MACHINE,
)
"""Keys in which runs of a setting may differ; those of `MACHINE` only if no sweep varies them."""
SECTIONS = ("runner", "env", "actor", "algorithm")
"""Sections that every configuration has."""
COMPONENTS = {"env": "env_type", "actor.model": "model_type", "algorithm": "name"}
"""Key that chooses the component of each section; the section's other keys depend on it."""


@dataclass(frozen=True)
class Setting:
    """Runs that differ only in their seed.

    Attributes:
        values: values of the keys in which settings differ.
        rows: the runs.
    """

    values: Values
    rows: tuple[Row, ...]

    @property
    def label(self) -> str:
        """Text with the values in which settings differ: `KEY=VALUE, ...`."""
        return ", ".join(f"{key}={rounded(value)}" for key, value in self.values.items())


def grouped(rows: Sequence[Row]) -> list[Setting]:
    """Group runs into settings, in the order of their first run."""
    varied = _varied_machine_keys(rows)
    groups: dict[str, list[Row]] = {}
    for row in rows:
        values = [leaf for leaf in leaves(row.config) if _distinguishes(leaf[0], varied)]
        groups.setdefault(repr(values), []).append(row)
    first = [group[0] for group in groups.values()]
    labels = _varied_overrides(first, varied) or _varied_values(first, varied)
    pairs = zip(labels, groups.values(), strict=True)
    return [Setting(values, tuple(group)) for values, group in pairs]


def is_complete(row: Row) -> bool:
    """Check that a run's configuration has all sections.

    A damaged one would differ from the others in all keys of a missing section.
    """
    return all(isinstance(row.config.get(section), Mapping) for section in SECTIONS)


def over_seeds(rows: Sequence[Row]) -> bool:
    """Check whether a setting has several runs, and no two runs of a setting have the same seed.

    Runs with a damaged configuration are ignored.
    """
    complete = [row for row in rows if is_complete(row)]
    settings = [[row.seed for row in setting.rows] for setting in grouped(complete)]
    return all(len(set(seeds)) == len(seeds) for seeds in settings) and any(
        len(seeds) > 1 for seeds in settings
    )


def _distinguishes(key: str, varied: tuple[str, ...]) -> bool:
    """Check whether runs that differ in a key belong to different settings."""
    return not _is_below(key, IGNORED) or _is_below(key, varied)


@lru_cache(maxsize=1 << 14)  # the keys of all runs are the same few hundred
def _is_below(key: str, sections: tuple[str, ...]) -> bool:
    return any(key == section or key.startswith(f"{section}.") for section in sections)


def _overrides(row: Row) -> dict[str, str]:
    """Return the overrides that a sweep gave a run, as text by key."""
    return dict(word.lstrip("+~").partition("=")[::2] for word in row.words)


def _varied_machine_keys(rows: Sequence[Row]) -> tuple[str, ...]:
    """Return the keys of `MACHINE` that a sweep varies between its runs, sorted."""
    values: dict[tuple[Path, str], set[str]] = {}
    for row in rows:
        for key, value in _overrides(row).items():
            if _is_below(key, (MACHINE,)):
                values.setdefault((row.folder.parent, key), set()).add(value)
    return tuple(sorted({key for (_, key), texts in values.items() if len(texts) > 1}))


def _varied_overrides(rows: Sequence[Row], varied: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the overrides in which the settings of a sweep differ, as values by key.

    The list is empty if a run has no overrides, or if they don't distinguish all settings.

    Args:
        rows: one run of each setting.
        varied: result of :func:`_varied_machine_keys`.
    """
    by_run = [_overrides(row) for row in rows]
    names = dict.fromkeys(key for overrides in by_run for key in overrides)
    keys = [
        key
        for key in names
        if _distinguishes(key, varied) and len({overrides.get(key) for overrides in by_run}) > 1
    ]
    distinct = {tuple(map(overrides.get, keys)) for overrides in by_run}
    if not all(by_run) or len(distinct) < len(rows):
        return []
    return [{key: _typed(overrides.get(key)) for key in keys} for overrides in by_run]


def _typed(text: str | None) -> Any:
    if text is not None:
        for kind in (int, float):
            with contextlib.suppress(ValueError):
                return kind(text)
    return text


def _varied_values(rows: Sequence[Row], varied: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the values in which configurations differ, by dotted key, for each configuration.

    If the component of a section differs, only the key that chooses it is returned for the section.
    A key with equal values for `env.train` and `env.eval` is returned once, as `env.*.KEY`.

    Args:
        rows: one run of each setting.
        varied: result of :func:`_varied_machine_keys`.
    """
    values_by_key = {
        key.path: key.values
        for key in differences(*(row.config for row in rows))
        if _distinguishes(key.path, varied)
    }
    for section, choice in COMPONENTS.items():
        own = [key for key in values_by_key if _is_below(key, (section,))]
        if any(key.endswith(choice) for key in own):
            for key in own:
                if not key.endswith(choice):
                    del values_by_key[key]
    columns: dict[str, Sequence[Any]] = {}
    for key, values in values_by_key.items():
        of_train = key.removeprefix("env.train.")
        of_eval = key.removeprefix("env.eval.")
        if of_train != key and values_by_key.get(f"env.eval.{of_train}") == values:
            columns[f"env.*.{of_train}"] = values
        elif columns.get(f"env.*.{of_eval}") != values:
            columns[key] = values
    return [{key: values[i] for key, values in columns.items()} for i in range(len(rows))]
