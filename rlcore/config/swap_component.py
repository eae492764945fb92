"""Replace a component of a recipe: `experiment=NAME algorithm=OTHER`.

The recipe's values for the section were chosen for the component that it names. Keys that have the
same meaning for both components retain the recipe's value; the others are dropped, with a warning.

Two options of an env may be task suites of the same component. Values in which the two options
differ, such as time limits, belong to the tasks: those of the chosen option replace the recipe's,
also with a warning.
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
from rlcore.config.warning import warn
from rlcore.plugins.registry import Registry


def fit_recipe(catalog: Catalog, groups: Sequence[str], files: FileValues) -> FileValues:
    """Drop or replace the recipe's values for components that other choices replace.

    Args:
        groups: all group choices.
        files: values composed from these choices; changed in place.

    Returns:
        `files`.
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
        # either may be None: a recipe for evaluation chooses no env for training
        option, other = (each.choices.get(slot.group) for each in (files, recipe))
        if meant == chosen and (option is None or other is None or option == other):
            continue
        own = _alone(catalog, slot, files.choices[slot.group])
        if meant == chosen and slot.kind == "env":
            said = _of_the_tasks(section, own, _alone(catalog, slot, str(other)), slot)
            if said:
                warn(f"{option} has {said}, in place of what {recipes[-1]} says for {other}")
            continue
        if meant == chosen:  # another size of the model, which has other checkpoints
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
    """Replace values in which the chosen option of an env differs from the recipe's option.

    Mappings are left as they were merged, as they contain entries of both options.

    Args:
        section: composed values of the env's section; changed in place.
        own: values of the chosen option without the recipe.
        theirs: values of the recipe's option without the recipe.

    Returns:
        `path=value` of each replaced value, joined by commas; empty if there is none.
    """
    plain = [name for name in own if name in theirs and not isinstance(own[name], dict)]
    differs = [n for n in plain if own[n] != theirs[n] and section[n] != own[n]]
    for name in differs:
        section[name] = own[name]
    return ", ".join(f"{slot.section}.{name}={own[name]}" for name in differs)


def _shared(registry: Registry, slot: Slot, meant: str, chosen: str) -> set[str]:
    """Return the keys that have the same meaning for two components.

    These are keys of the kind's base class, or of a family's that both components extend, except
    keys that are `own` (see :func:`rlcore.config.schema.key`) and keys that either component
    declares again.

    Args:
        meant: name of the recipe's component.
        chosen: name of the component that replaces it.
    """
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
