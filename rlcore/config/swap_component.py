"""Replace a component of a recipe: `experiment=NAME algorithm=OTHER`.

The values of the recipe's section were chosen for the component it names. Keys that all components
of the kind have, with the same meaning for both, keep the recipe's value; the others are dropped,
with a line that says so.

Two options of an env may be suites of tasks of one component. Values in which the two differ, such
as time limits, belong to the tasks: the chosen option's replace the recipe's, also with a line.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from rlcore.config import schema_tree
from rlcore.config.bind import SLOTS, Slot, default_settings
from rlcore.config.catalog import BY_RECIPE, TYPE_KEYS, Catalog
from rlcore.config.hydra_compose import FileValues, compose_files
from rlcore.config.old_names import warn
from rlcore.plugins.registry import Registry


def fit_recipe(catalog: Catalog, groups: Sequence[str], files: FileValues) -> FileValues:
    """`files` without what its recipe says for components that others take the place of.

    Args:
        groups: all group choices.
        files: what they come to.
    """
    recipes = [group for group in groups if group.startswith(BY_RECIPE)]
    if not recipes or len(recipes) == len(groups):
        return files
    recipe = compose_files(catalog, recipes)
    for slot in SLOTS:
        section = _section(files.values, slot)
        meant, chosen = _name(_section(recipe.values, slot), slot), _name(section, slot)
        if meant is None or chosen is None:
            continue
        # either may be missing: a recipe for evaluation chooses no env to train on
        option, other = (each.choices.get(slot.group) for each in (files, recipe))
        if meant == chosen and (option is None or other is None or option == other):
            continue
        own = _alone(catalog, slot, files.choices[slot.group])
        if meant == chosen and slot.kind == "env":
            said = _of_the_tasks(section, own, _alone(catalog, slot, str(other)), slot)
            if said:
                warn(f"{option} has {said}, in place of what {recipes[-1]} says for {other}")
            continue
        if meant == chosen:  # another size of it, for which there are other weights
            meant, chosen = str(other), str(option)
            places = ((field.name, field.metadata["place"]) for field in fields(slot.base))  # type: ignore[arg-type]
            shared = {*section} - {name for name, place in places if place == "checkpoint"}
        else:
            shared = _shared(catalog.registry, slot, meant, chosen)
        dropped = [n for n, value in section.items() if n not in shared and own.get(n) != value]
        for name in dropped:
            del section[name]
        section.update({name: value for name, value in own.items() if name not in section})
        if dropped:
            keys = ", ".join(f"{slot.section}.{name}" for name in dropped)
            warn(f"{recipes[-1]} is for {meant}; {chosen} does not use its settings {keys}")
    return files


def _alone(catalog: Catalog, slot: Slot, option: str) -> dict[str, Any]:
    """Return the values that an option has without the recipe."""
    return _section(compose_files(catalog, [f"{slot.group}={option}"]).values, slot)


def _of_the_tasks(
    section: dict[str, Any], own: Mapping[str, Any], theirs: Mapping[str, Any], slot: Slot
) -> str:
    """Put the values of the chosen option in place of the recipe's, where its option has others;
    returns which. Of mappings both have some, so they stay as they were merged."""
    plain = [name for name in own if name in theirs and not isinstance(own[name], dict)]
    differs = [n for n in plain if own[n] != theirs[n] and section[n] != own[n]]
    for name in differs:
        section[name] = own[name]
    return ", ".join(f"{slot.section}.{name}={own[name]}" for name in differs)


def _shared(registry: Registry, slot: Slot, meant: str, chosen: str) -> set[str]:
    """Keys that mean the same to both: those of the kind, or of a family that both are of, that are
    nobody's own (see :func:`rlcore.config.schema.key`) and that neither declares anew."""
    one, other = (type(default_settings(registry, slot, n)).__mro__ for n in (meant, chosen))
    base = next(c for c in one if c in other and (c is slot.base or "family" in vars(c)))
    classes = (*one[: one.index(base)], *other[: other.index(base)])
    anew = {name for cls in classes for name in inspect.get_annotations(cls)}
    common = {field.name for field in fields(base) if not field.metadata["own"]}
    return common - (anew - {TYPE_KEYS[slot.kind]})


def _section(values: Mapping[str, Any], slot: Slot) -> dict[str, Any]:
    found = schema_tree.find(values, slot.section)
    return found if isinstance(found, dict) else {}


def _name(section: Mapping[str, Any], slot: Slot) -> str | None:
    name = section.get(TYPE_KEYS[slot.kind])
    return name if isinstance(name, str) else None
