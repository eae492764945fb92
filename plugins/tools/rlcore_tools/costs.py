"""Read what a recipe costs from the `costs.yaml` beside its folder of recipes. Light.

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
        hardware: accelerators, or cores, that it ran on.
        time: GPU-hours, or CPU-minutes.
        memory: of an accelerator, or main memory.
        curve: success at the start and at the end, and how many updates lie between.
        source: the page that has these figures.
        measured: whether that is one of rlcore's own results.
    """

    hardware: str
    time: str
    memory: str
    curve: str
    source: str
    measured: bool

    def lines(self) -> list[str]:
        """Format for the user."""
        told = asdict(self)
        measured = "measured here" if told.pop("measured") else "not measured here"
        return [*(f"{name}: {text}" for name, text in told.items()), measured]


def cost_of(catalog: Catalog, recipe: str) -> Cost | None:
    """Read the cost of a recipe that its authors give; None if they give none.

    Raises:
        ConfigError: the file can't be read, or what it says of the recipe is not a :class:`Cost`.
    """
    file = catalog.beside(EXPERIMENT, recipe, FILE)
    found = read_mapping(file).get(recipe) if file else None
    if found is None:
        return None
    wanted = {field.name: field.type for field in fields(Cost)}
    if not isinstance(found, dict) or {k: type(v).__name__ for k, v in found.items()} != wanted:
        kinds = ", ".join(f"{name} ({kind})" for name, kind in wanted.items())
        raise ConfigError(f"{file}: {recipe} must have {kinds}, got {found}")
    return Cost(**found)


def said_costs(config: RunConfig, registry: Registry) -> list[str]:
    """Lines on what the recipe of a run costs as it stands, whatever else the run changes of it;
    none without a recipe, or where nobody says."""
    catalog, lines = Catalog(registry, config.recipe.config_dirs), []
    for name in (choice.removeprefix(BY_RECIPE) for choice in config.recipe.choices):
        if cost := cost_of(catalog, name):
            lines += [f"{name}, as it stands:", *(f"  {line}" for line in cost.lines())]
    return lines
