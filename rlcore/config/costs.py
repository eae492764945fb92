"""Read the cost of a recipe from the `costs.yaml` next to its folder of recipes. Light.

RECIPE: {hardware: ..., time: ..., memory: ..., curve: ..., source: ..., measured: true}
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields

from rlcore.config.catalog import BY_RECIPE, EXPERIMENT, Catalog
from rlcore.config.recipes import read_mapping
from rlcore.config.schema import RunConfig
from rlcore.contracts.errors import ConfigError
from rlcore.plugins.registry import Registry

FILE = "costs.yaml"


@dataclass(frozen=True)
class Cost:
    """Cost of a whole run of a recipe, as text; "not published" where it is unknown.

    Attributes:
        hardware: accelerators or CPU cores that the recipe ran on.
        time: duration in GPU-hours or CPU-minutes.
        memory: memory of an accelerator, or main memory.
        curve: success at the start and at the end, and the number of updates between them.
        source: page that the figures come from.
        measured: whether the figures are one of rlcore's own results.
    """

    hardware: str
    time: str
    memory: str
    curve: str
    source: str
    measured: bool

    def lines(self) -> list[str]:
        """Return the cost as text for the user, one line for each field."""
        values = asdict(self)
        measured = "measured here" if values.pop("measured") else "not measured here"
        return [*(f"{name}: {text}" for name, text in values.items()), measured]


def cost_of(catalog: Catalog, recipe: str) -> Cost | None:
    """Read the cost that a recipe's authors give; return None if they give none.

    Raises:
        ConfigError: the file can't be read, or its entry for the recipe is not a :class:`Cost`.
    """
    file = catalog.beside(EXPERIMENT, recipe, FILE)
    entry = read_mapping(file).get(recipe) if file else None
    if entry is None:
        return None
    types = {field.name: field.type for field in fields(Cost)}
    if not isinstance(entry, dict) or {k: type(v).__name__ for k, v in entry.items()} != types:
        keys = ", ".join(f"{name} ({kind})" for name, kind in types.items())
        raise ConfigError(f"{file}: {recipe} must have {keys}, got {entry}")
    return Cost(**entry)


def recipe_costs(config: RunConfig, registry: Registry) -> list[str]:
    """Return lines on the cost of each recipe that a run chooses.

    The cost is that of the unchanged recipe; settings that the run overrides are not considered.
    The list is empty if the run chooses no recipe, or none of its recipes has a known cost.
    """
    catalog = Catalog(registry, config.recipe.config_dirs)
    lines = list[str]()
    for name in (choice.removeprefix(BY_RECIPE) for choice in config.recipe.choices):
        if cost := cost_of(catalog, name):
            lines += [f"{name}, as it stands:", *(f"  {line}" for line in cost.lines())]
    return lines
