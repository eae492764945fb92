"""Sweeps: one line with lists of values becomes a list of jobs.

Hydra's grammar and its basic sweeper's meaning: `a=1,2`, `range(1,4)` and `choice(x,y)` are
expanded, and the jobs are their cartesian product in the order written.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hydra.errors import HydraException

from rlcore.config.compose import parse
from rlcore.config.schema import RunConfig
from rlcore.errors import ConfigError


@dataclass(frozen=True)
class Job:
    """One job of a sweep.

    Attributes:
        index: its number, from 0.
        overrides: for `compose`, without lists.
        label: what tells it from the others, e.g. "runner.seed=1,env=toy".
    """

    index: int
    overrides: tuple[str, ...]
    label: str

    def place(self, config: RunConfig) -> RunConfig:
        """The configuration with the job's own folder, `<experiment_name>/<index>_<label>`."""
        safe = re.sub(r"[^\w.,=+-]", "_", self.label)
        logger = config.runner.logger
        name = f"{logger.experiment_name}/{self.index}_{safe}".rstrip("_")
        runner = replace(config.runner, logger=replace(logger, experiment_name=name))
        placed = replace(config, runner=runner)
        placed.freeze()
        return placed


def expand(overrides: Sequence[str]) -> list[Job]:
    """All jobs of a sweep; one where nothing is swept.

    Raises:
        ConfigError: a sweep the basic sweeper does not have, such as `interval(...)`.
    """
    axes: list[list[tuple[str, bool]]] = []  # texts of one override, and whether it is swept
    for override in parse(overrides):
        if not override.is_sweep_override():
            axes.append([(override.input_line or "", False)])
        elif not override.is_discrete_sweep():
            raise ConfigError(
                f"{override.input_line}: a sweep needs a list of values",
                hint="a=1,2,3 or a=range(1,4) or a=choice(x,y)",
            )
        else:
            key = override.get_key_element()
            try:
                axes.append([(f"{key}={v}", True) for v in override.sweep_string_iterator()])
            except HydraException as error:
                raise ConfigError(f"{override.input_line}: {error}") from None
    return [
        Job(
            index=index,
            overrides=tuple(text for text, _ in combination),
            label=",".join(text for text, swept in combination if swept),
        )
        for index, combination in enumerate(itertools.product(*axes))
    ]
