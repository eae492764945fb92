"""List presets and recipes in addition to the components, and show all details of one name.

Light: files are read as text, and no schema is loaded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from shutil import get_terminal_size
from textwrap import fill

from rlcore.config.catalog import COMPONENT_GROUPS, EXPERIMENT, Catalog
from rlcore.plugins import extras
from rlcore.plugins.registry import PluginRow, Registry

CHOICE = re.compile(
    r"^\s*-\s*(?:override\s+)?/?(env|model|algorithm)(?:/\w+)?(?:@[\w.]+)?\s*:\s*([\w.-]+)", re.M
)
"""Line of a recipe's defaults that chooses a component or a preset."""
BASE = re.compile(rf"^\s*-\s*(?:{EXPERIMENT}/)?([\w.-]+)\s*$", re.M)
"""Line of a recipe's defaults that includes another recipe."""
WIDTH = 100


def about(registry: Registry, name: str | None, rows: Sequence[PluginRow], *, as_json: bool) -> str:
    """Return the text that `rlcore plugins [NAME]` prints in addition to the rows of components.

    Args:
        rows: the components with that name.
        as_json: return JSON, which exists for recipes alone, or an empty text.

    Raises:
        PluginError: no component, preset or recipe has that name.
        ConfigError: the costs of a recipe are malformed.
    """
    if name is None:
        return "" if as_json else presets_and_recipes(registry)
    catalog = Catalog(registry)
    if as_json and not rows and (recipe := catalog.recipe(name)[0]) is not None:
        from rlcore.config.costs import cost_of

        cost = cost_of(catalog, recipe)
        return json.dumps([{"recipe": recipe, "cost": cost and asdict(cost)}], indent=2)
    lines = [] if as_json else details(registry, name)
    if not rows and not lines:
        components = {row.name for row in registry.rows()}
        options = (catalog.options(group) for group in (*COMPONENT_GROUPS, EXPERIMENT))
        raise registry.not_found("component or recipe", name, components.union(*options))
    return "\n".join(lines)


def presets_and_recipes(registry: Registry) -> str:
    """Return the list of presets and recipes.

    Presets are the options of a group that are not the name of a component. Recipes that need a
    component which is not installed are listed separately, with the command that installs it.
    """
    catalog = Catalog(registry)
    lines: list[str] = []
    for group, kind in COMPONENT_GROUPS.items():
        own = {*registry.names(kind)}
        names = [name for name in catalog.options(group) if name not in own]
        lines += ["", f"presets, {group}=NAME", _filled(names)] if names else []
    usable: list[str] = []
    lacking: dict[str, list[str]] = {}
    installed = {group: {*catalog.options(group)} for group in COMPONENT_GROUPS}
    for name in catalog.options(EXPERIMENT):
        absent = [
            (group, option)
            for group, option in _choices(catalog, name)
            if option not in installed[group]
        ]
        if absent:
            kinds = [(COMPONENT_GROUPS[group], option) for group, option in absent]
            needs = registry.install_command(kinds) or ", ".join(map("=".join, absent))
            lacking.setdefault(needs, []).append(name)
        else:
            usable.append(name)
    lines += ["", "recipes, rlcore train NAME", _filled(usable or ["none can be used"])]
    for needs, names in lacking.items():
        lines += ["", f"recipes that lack something: {needs}", _filled(names)]
    return "\n".join([*lines, "", "rlcore plugins NAME shows all details of one"])


def details(registry: Registry, name: str) -> list[str]:
    """Return lines about the components, presets and recipe of that name, which may be none."""
    catalog = Catalog(registry)
    lines = [*_component_lines(registry, name), *_preset_lines(catalog, name)]
    recipe, _ = catalog.recipe(name)
    if recipe is not None:
        from rlcore.config.costs import cost_of  # imported here, as it imports the YAML parser

        cost = cost_of(catalog, recipe)
        lines.append(f"recipe {recipe}: {catalog.file(EXPERIMENT, recipe)}")
        lines += [f"  {text}" for text in _heading(catalog, EXPERIMENT, recipe)]
        lines += [f"  {group}={option}" for group, option in _choices(catalog, recipe)]
        lines += [f"  {text}" for text in (cost.lines() if cost else ["cost: not known"])]
    return lines


def _component_lines(registry: Registry, name: str) -> Iterator[str]:
    for kind in dict.fromkeys(row.kind for row in registry.rows() if row.name == name):
        for component in registry.components(kind):  # type: ignore[arg-type]
            if component.spec.name != name:
                continue
            if component.spec.summary:
                yield f"  {component.spec.summary}"
            yield f"  {kind} {name} is {component.spec.target}"
            if absent := extras.lacking(component.spec.packages):
                yield f"  lacks {', '.join(absent)}: {extras.installing(absent)}"
            group = next((group for group, of in COMPONENT_GROUPS.items() if of == kind), None)
            if group is not None:
                yield from _component_usage(Catalog(registry), group, name, kind)


def _component_usage(catalog: Catalog, group: str, name: str, kind: str) -> Iterator[str]:
    key = {"env": "env_type", "model": "model_type"}.get(group, "name")
    setting = re.compile(rf"^{key}:\s*{re.escape(name)}\s*$", re.M)
    presets = [
        option
        for option in catalog.options(group)
        if setting.search(_text(catalog, group, option)) or extras.belongs(option, name)
    ]
    recipes = [
        recipe
        for recipe in catalog.options(EXPERIMENT)
        if any(g == group and (o == name or o in presets) for g, o in _choices(catalog, recipe))
    ]
    yield from _usage(group, (presets or [name])[0], presets, recipes)


def _usage(group: str, name: str, presets: list[str], recipes: list[str]) -> Iterator[str]:
    """Yield the presets and recipes that use an option, and the command that lists its keys."""
    if presets:
        yield _filled(presets, "presets: ")
    if recipes:
        yield _filled(recipes, "recipes: ")
    section = {"env": "env.train", "model": "actor.model"}.get(group, group)
    yield f"  its keys: rlcore train {group}={name} --help {section}"


def _preset_lines(catalog: Catalog, name: str) -> Iterator[str]:
    for group in COMPONENT_GROUPS:
        if (file := catalog.file(group, name)) is not None:
            yield f"preset {group}={name}: {file}"
            yield from (f"  {text}" for text in _heading(catalog, group, name))
            if name in catalog.registry.names(COMPONENT_GROUPS[group]):
                continue  # usage is already listed for the component
            using = [
                r for r in catalog.options(EXPERIMENT) if (group, name) in _choices(catalog, r)
            ]
            yield from _usage(group, name, [], using)


def _choices(catalog: Catalog, recipe: str, depth: int = 4) -> list[tuple[str, str]]:
    """Return (group, option) of the components that a recipe and its base recipes choose.

    Args:
        depth: levels of base recipes to follow, which also ends a circle of recipes.
    """
    text = _text(catalog, EXPERIMENT, recipe)
    choices = dict(CHOICE.findall(text))
    for base in BASE.findall(text) if depth else ():
        if catalog.file(EXPERIMENT, base) is not None:
            choices = dict(_choices(catalog, base, depth - 1)) | choices
    return [*choices.items()]


def _heading(catalog: Catalog, group: str, name: str) -> list[str]:
    """Return the lines of the comment at the start of a file, without `@package` lines."""
    lines = _text(catalog, group, name).splitlines()
    head = [line for line in lines if line.strip()]
    end = next((n for n, line in enumerate(head) if not line.startswith("#")), len(head))
    return [line.lstrip("# ") for line in head[:end] if "@package" not in line]


def _text(catalog: Catalog, group: str, name: str) -> str:
    file = catalog.file(group, name)
    if file is None:
        return ""
    data = file.read_bytes()[: 2**20]
    return data.decode(errors="replace")


def _filled(names: list[str], label: str = "") -> str:
    """Wrap the names to the width of the terminal, after a label."""
    return fill(
        label + ", ".join(names),
        min(WIDTH, get_terminal_size((WIDTH, 0)).columns),
        initial_indent="  ",
        subsequent_indent="    " if label else "  ",
        break_on_hyphens=False,
    )
