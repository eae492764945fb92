"""Read what a recipe says of its sweep: the choice of launcher and sweeper, and plain values below.

defaults:
  - override /hydra/sweeper: rlcore_optuna
hydra:
  sweeper:
    n_trials: 12
    params:
      actor.optim.lr: tag(log, interval(1e-6, 1e-4))
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rlcore.cli.request import HYDRA
from rlcore.config.catalog import BY_RECIPE, EXPERIMENT, Catalog, is_folder
from rlcore.config.choices import included
from rlcore.config.overrides import quote
from rlcore.config.recipes import read_mapping
from rlcore.contracts.errors import ConfigError
from rlcore.plugins.registry import load_plugins
from rlcore_sweeps.request import PLAIN, Order, flat, key_of

CHOICES = ("hydra/launcher", "hydra/sweeper")


def with_recipe(order: Order) -> Order:
    """The order with the words of its recipe before those of the command line, which win.

    Raises:
        ConfigError: the recipe sets what could load code.
    """
    own = _of(Catalog(load_plugins(), order.config_dirs), _named(order))
    given = {key_of(word) for word in order.hydra}
    left = [
        word
        for word in own
        if key_of(word) not in given
        and not any(key in given and word.startswith(f"{_dotted(key)}.") for key in CHOICES)
    ]
    return replace(order, hydra=(*left, *order.hydra))


def _named(order: Order) -> str | None:
    """The recipe that all jobs are made from."""
    said = [word.removeprefix(BY_RECIPE) for word in order.words if word.startswith(BY_RECIPE)]
    names = [*said, *order.values("--config-name", "-cn")]
    first = order.flags[0] if order.flags else "-"
    if not names and first[0] != "-" and not is_folder(first):
        names = [first]
    return names[-1] if names else None


def _of(catalog: Catalog, name: str | None) -> list[str]:
    """The words of a recipe and, before them, of those that it includes."""
    found = None if name is None else catalog.option(EXPERIMENT, name)
    file = None if found is None else catalog.file(EXPERIMENT, found)
    if file is None:  # the jobs say what is wrong with it
        return []
    content = read_mapping(file)
    words: list[str] = []
    for group, option in included(file, EXPERIMENT, content):
        if group == EXPERIMENT and option != found:
            words += _of(catalog, option)
        elif group.startswith(HYDRA):
            words.append(f"{group}={option}")
    about = content.get("hydra", {})
    words += [f"hydra.{key}={_text(value)}" for key, value in flat(about)]
    for word in words:
        if not PLAIN.fullmatch(word):
            raise ConfigError(
                f"{file} sets {key_of(word)}, which may load or run code",
                hint=f"a recipe chooses {' and '.join(CHOICES)} and sets plain values below them; "
                "give others on the command line",
            )
    return words


def _dotted(group: str) -> str:
    return group.replace("/", ".")


def _text(value: Any) -> str:
    """A value of YAML as a word has it."""
    if isinstance(value, list):
        return f"[{','.join(map(_text, value))}]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return quote(value) if isinstance(value, str) else str(value)
