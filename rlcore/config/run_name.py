"""Name a run after what it is composed from. Light."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rlcore.config.catalog import COMPONENT_GROUPS, EXPERIMENT
from rlcore.config.choices import SIDES_OF

LONGEST_PART = 64
"""Bytes of a component's name in that of a run; a folder's name has at most 255."""
NOT_IN_NAMES = re.compile(r"[^\w.+-]+")


def run_name(choices: Mapping[str, str]) -> str | None:
    """Return the name of a run: that of its recipe, or else of its env, model and algorithm.

    A component that is not chosen is left out, and of two envs the one to train on is named. In
    names of components, `_` replaces characters that a shell or a file system may read otherwise.

    Args:
        choices: the option of each chosen group, e.g. `{"env/train": "toy", "model": "toy"}`.

    Returns:
        A path below the folder of runs; None if neither a recipe nor a component is chosen.
    """
    if EXPERIMENT in choices:
        return choices[EXPERIMENT]
    groups = [SIDES_OF[component][0] for component in COMPONENT_GROUPS]
    parts = [_part(choices[group]) for group in groups if group in choices]
    return "-".join(filter(None, parts)) or None


def _part(option: str) -> str:
    short = NOT_IN_NAMES.sub("_", option).encode()[:LONGEST_PART].decode(errors="ignore")
    return short.strip("._-")  # a leading dot hides a folder, a leading dash looks like an option
