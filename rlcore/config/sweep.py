"""Expand a sweep: turn one line with lists of values into a list of jobs.

Follows Hydra's grammar and its basic sweeper: `a=1,2`, `range(1,4)` and `choice(x,y)` are
expanded, and the jobs are their cartesian product in the order written.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from hydra.core.override_parser.types import Glob
from hydra.errors import HydraException

from rlcore.config.overrides import parse
from rlcore.config.schema import RunConfig
from rlcore.contracts.errors import ConfigError

NAME_LENGTH = 100  # characters; the shortest limit of common file systems is 143 bytes


@dataclass(frozen=True)
class Job:
    """One job of a sweep.

    Attributes:
        index: its number, from 0.
        overrides: for `compose`, without lists.
        label: what tells it from the others, e.g. "runner.seed=1,env=toy".
        name: of its folder, e.g. "0-seed-1-env-toy". All file systems take it, the names of a
            sweep sort by number, and no command line takes it for `key=value`.
    """

    index: int
    overrides: tuple[str, ...]
    label: str
    name: str

    def place(self, config: RunConfig, parent: str) -> RunConfig:
        """The configuration with the job's own folder, `<parent>/<name>` below
        `runner.logger.log_path`."""
        logger = replace(config.runner.logger, experiment_name=f"{parent}/{self.name}")
        runner = replace(config.runner, logger=logger)
        placed = replace(config, runner=runner)
        placed.freeze()
        return placed


def expand(overrides: Sequence[str], *, keep: str | None = None) -> list[Job]:
    """All jobs of a sweep; one where nothing is swept.

    Args:
        overrides: as on the command line.
        keep: one of them that names a folder; it is never a list, whatever is in the name.

    Raises:
        ConfigError: a sweep the basic sweeper does not have, such as `interval(...)`.
    """
    kept = [word for word in overrides if word == keep]
    axes: list[list[tuple[str, bool]]] = [[(word, False)] for word in kept]  # texts, if swept
    for override in parse([word for word in overrides if word != keep]):
        if not override.is_sweep_override():
            axes.append([(override.input_line or "", False)])
        elif not override.is_discrete_sweep() or isinstance(override.value(), Glob):
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
    combinations = list(itertools.product(*axes))
    swept = [[text for text, is_swept in combination if is_swept] for combination in combinations]
    short = _short_keys(text.partition("=")[0] for text in (swept[0] if swept else ()))
    digits = len(str(len(combinations) - 1))
    return [
        Job(
            index=index,
            overrides=tuple(text for text, _ in combination),
            label=",".join(texts),
            name="-".join([f"{index:0{digits}}", *(_file_name(text, short) for text in texts)])[
                :NAME_LENGTH
            ].rstrip("-."),
        )
        for index, (combination, texts) in enumerate(zip(combinations, swept, strict=True))
    ]


def _short_keys(keys: Iterable[str]) -> dict[str, str]:
    """The end of each key that tells it from the others: `runner.seed` -> `seed`."""
    short: dict[str, str] = {}
    keys = list(keys)
    for key in keys:
        parts = re.split("[./]", key.lstrip("+~").replace("*", "both"))
        ends = ["-".join(parts[start:]) for start in range(len(parts) - 1, -1, -1)]
        others = ["-" + "-".join(re.split("[./]", other)) for other in keys if other != key]
        unique = [end for end in ends if not any(other.endswith(f"-{end}") for other in others)]
        short[key] = unique[0] if unique else ends[-1]
    return short


def _file_name(text: str, short: dict[str, str]) -> str:
    """`runner.seed=1` -> `seed-1`: letters, digits, point, minus, plus and underscore alone."""
    key, _, value = text.partition("=")
    return f"{short[key]}-" + re.sub(r"[^A-Za-z0-9.+-]+", "_", value).strip("_")
