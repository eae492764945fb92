"""Warn about keys that have no effect with the other settings of the run.

Each key, a plugin's too, declares under which conditions it is read (`when=` of
:func:`rlcore.config.schema.key`). Light.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path

from rlcore.config import schema_tree
from rlcore.config.catalog import EXPERIMENT
from rlcore.config.compose import sources_of
from rlcore.config.schema import RunConfig
from rlcore.config.schema.sources import Layer
from rlcore.config.warning import ConfigWarning
from rlcore.contracts.errors import UserError
from rlcore.utils.text import format_value

OUTPUT = "collect.output"
CONTROL = "sft.control"
NOTHING = object()  # no value is equal to it
SIDES_OF_ONE = {
    "env.train.trials_per_task": "training draws from all trials of env.train.split",
    "env.train.allow_training_trials": "it is for env.eval",
    "env.eval.auto_reset": "an evaluation plays each start once",
    "env.eval.max_steps_per_rollout_epoch": "an evaluation plays each start once, to its end",
}
"""Keys that both envs have and only the other one reads: `{path: why it has no effect}`."""


def unread(
    config: RunConfig, *, collects: bool = False, imitates: bool = False, taught: bool = False
) -> list[str]:
    """Return a sentence for each key that the user set by hand and that is not read.

    A key counts as set by hand if its value differs from the default and from the one that the
    chosen options and the recipes of rlcore give it.

    Args:
        collects: whether the run only collects demonstrations.
        imitates: whether the run is supervised training alone.
        taught: whether the algorithm learns from demonstrations, so that the section `collect` is
            read without supervised training too.
    """
    of_others = {} if collects else {OUTPUT: "rlcore collect alone writes there"}
    if imitates:
        of_others[CONTROL] = "rlcore sft trains no control, which is compared with what RL reaches"
    candidates = [
        (key, sentence)
        for key, sentence in _unread_keys(config, of_others)
        if key.path in of_others or not (collects or taught) or not key.path.startswith("collect.")
    ]
    layers = _layers_of_rlcore(config) if candidates else []
    return [
        sentence for key, sentence in candidates if not any(_sets(layer, key) for layer in layers)
    ]


def _sets(layer: Layer, key: schema_tree.Key) -> bool:
    """Check whether a layer gives a key the value that it has.

    A layer holds the text of its file, in which references are not resolved and paths are relative.
    """
    raw = schema_tree.find(layer.values, key.path, NOTHING)
    if isinstance(raw, str) and "${" in raw:
        return True
    return bool(raw == key.value) or (
        key.place is not None and isinstance(raw, str) and os.path.abspath(raw) == key.value
    )


def _unread_keys(
    config: RunConfig, others: Mapping[str, str]
) -> Iterator[tuple[schema_tree.Key, str]]:
    """Yield each key that is not read and not at its default, with a sentence that says why.

    Args:
        others: further keys that are not read: `{path: why}`.
    """
    unused = {**SIDES_OF_ONE, **config.algorithm.unused, **others}
    unread_sections: dict[str, str] = {}  # why, by path
    for key in schema_tree.walk(config):
        if not key.section and key.value == key.default:
            continue
        section = key.path.rpartition(".")[0]
        reason = unread_sections.get(section) or _why_unread(config, key, unused)
        if reason and key.section:
            unread_sections[key.path] = reason
        elif reason:
            yield key, f"{key.path}={format_value(key.value)} does nothing{reason}"


def _why_unread(config: RunConfig, key: schema_tree.Key, unused: Mapping[str, str]) -> str | None:
    """Return why a key or section is not read, as the end of a sentence; None if it is read."""
    if key.path in unused:
        return f": {unused[key.path]}"
    for condition in key.when:
        path = condition.other(key.path)
        value = schema_tree.value_of(config, path)
        if not condition.holds(value):
            return f" with {path}={format_value(value)}"
    return None


def _layers_of_rlcore(config: RunConfig) -> list[Layer]:
    """Return the files of the chosen options and recipes, whose values were not set by hand.

    Recipes in folders of the user are left out. Empty if the choices don't compose on this machine.
    """
    own = {Path(folder).resolve() for folder in config.recipe.config_dirs}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConfigWarning)  # shown when the run was composed
            layers = sources_of(config).files.layers
    except UserError:  # composed elsewhere
        return []
    return [
        layer
        for layer in layers
        if layer.group != EXPERIMENT or layer.file is None or own.isdisjoint(layer.file.parents)
    ]
