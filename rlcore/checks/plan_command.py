"""Build the `rlcore plan` command that shows which layouts fit a run. Light."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from rlcore.config.catalog import BY_RECIPE
from rlcore.config.schema import RunConfig

OF_MACHINES = ("cluster.inventory", "cluster.address")


def plan_command(config: RunConfig, given: Sequence[str]) -> str:
    """Return the `rlcore plan` command line that suggests layouts for the same run.

    It repeats the run's choices, overrides and machines, without the placement, which the plan
    decides. Empty if the run is given by its folder, or chooses nothing.

    Args:
        config: configuration of the run.
        given: words of the command line that started it.
    """
    folder = Path(given[0].removeprefix(BY_RECIPE)) if given else Path()
    if not config.recipe.choices or (given and given[0].startswith(BY_RECIPE) and folder.is_dir()):
        return ""
    keys = {word: word.partition("=")[0] for word in given}
    changes = [
        word
        for word, key in keys.items()
        if "." in key and not key.startswith("runner.logger.")
        if not key.startswith("cluster.") or key in OF_MACHINES
    ]
    if config.runner.only_eval and "runner.only_eval" not in keys.values():
        changes.insert(0, "runner.only_eval=true")
    if config.supervised_only and "sft.enabled" not in keys.values():
        changes.insert(0, "sft.enabled=true")
    return f"rlcore plan {shlex.join([*config.recipe.words, *changes])}"
