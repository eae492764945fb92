"""Replace a component of a recipe: `experiment=NAME algorithm=OTHER`.

The recipe's values for the section were chosen for the component that it names. Keys that have the
same meaning for both components retain the recipe's value; the others are dropped, with a warning.

Two options of an algorithm are two sets of settings of the same component: the chosen one stands
alone, without the recipe's. Two options of an env may be task suites of the same component. Values
in which the two options differ, such as time limits, belong to the tasks: those of the chosen
option replace the recipe's, also with a warning.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from rlcore.config import schema_tree
from rlcore.config.bind import SLOTS, Slot, default_settings
from rlcore.config.catalog import TYPE_KEYS
from rlcore.config.schema import Settings
from rlcore.config.schema.sources import FileValues, merged
from rlcore.config.warning import warn
from rlcore.plugins.registry import Registry


def fit_recipe(registry: Registry, choice: str, files: FileValues, recipe: FileValues) -> None:
    """Drop or replace the recipe's values for components that other choices replace.

    Args:
        choice: the recipe, as warnings name it: "experiment=NAME".
        files: composed from all choices; its values are changed in place.
        recipe: composed from the recipe alone.
    """
    for slot in SLOTS:
        section = _section(files.values, slot)
        name = _name(section, slot)
        recipe_name = _name(_section(recipe.values, slot), slot)
        if recipe_name is None or name is None:
            continue
        # either may be None: a recipe for evaluation chooses no env for training
        option = files.choices.get(slot.group)
        recipe_option = recipe.choices.get(slot.group)
        if recipe_name == name and (None in (option, recipe_option) or option == recipe_option):
            continue
        own = _component_values(files, slot)
        if recipe_name == name and slot.kind == "env":
            replaced = _replace_task_values(section, own, _component_values(recipe, slot), slot)
            if replaced:
                warn(f"{option} has {replaced}, in place of what {choice} says for {recipe_option}")
            continue
        if recipe_name == name:
            recipe_name = str(recipe_option)
            name = str(option)
            shared = _shared_by_options(slot, section)
        else:
            shared = _shared_keys(registry, slot, recipe_name, name)
        dropped = [
            key
            for key, value in section.items()
            if key not in shared and (key not in own or own[key] != value)
        ]
        for key in dropped:
            del section[key]
        section.update({key: value for key, value in own.items() if key not in section})
        if dropped:
            paths = ", ".join(f"{slot.section}.{key}" for key in dropped)
            warn(f"{choice} is for {recipe_name}; {name} does not use its settings {paths}")


def _component_values(files: FileValues, slot: Slot) -> dict[str, Any]:
    """Return the values that the chosen option of a component sets itself, without the recipe's."""
    own = merged(layer.values for layer in files.layers if layer.group == slot.group)
    return _section(own, slot)


def _replace_task_values(
    section: dict[str, Any], own: Mapping[str, Any], recipe_own: Mapping[str, Any], slot: Slot
) -> str:
    """Replace values in which the chosen option of an env differs from the recipe's option.

    Mappings are left as they were merged, as they contain entries of both options.

    Args:
        section: composed values of the env's section; changed in place.
        own: values of the chosen option without the recipe.
        recipe_own: values of the recipe's option without the recipe.

    Returns:
        `path=value` of each replaced value, joined by commas; empty if there is none.
    """
    differs = [
        key
        for key, value in own.items()
        if key in recipe_own
        and not isinstance(value, dict)
        and value != recipe_own[key]
        and value != section[key]
    ]
    section.update({key: own[key] for key in differs})
    return ", ".join(f"{slot.section}.{key}={own[key]}" for key in differs)


def _shared_by_options(slot: Slot, section: Mapping[str, Any]) -> set[str]:
    """Return the keys of a section that keep the recipe's values with another option of the same
    model or algorithm: for another size of a model all but its checkpoints, for other settings of
    an algorithm none."""
    if slot.kind == "algorithm":
        return set()
    keys = fields(slot.base)  # type: ignore[arg-type]
    return {*section} - {k.name for k in keys if k.metadata["place"] == "checkpoint"}


def _shared_keys(registry: Registry, slot: Slot, recipe_name: str, name: str) -> set[str]:
    """Return the keys that have the same meaning for two components.

    These are keys of the kind's base class, or of a family's that both components extend, except
    keys that are `own` (see :func:`rlcore.config.schema.key`) and keys that either component
    declares again.

    Args:
        recipe_name: name of the recipe's component.
        name: name of the component that replaces it.
    """
    first, second = (type(default_settings(registry, slot, n)).__mro__ for n in (recipe_name, name))
    shared = [c for c in first if c in second and issubclass(c, Settings)]
    base: Any = next(c for c in shared if c is slot.base or c.is_family())
    classes = (*first[: first.index(base)], *second[: second.index(base)])
    redeclared = {key for cls in classes for key in inspect.get_annotations(cls)}
    common = {field.name for field in fields(base) if not field.metadata["own"]}
    return common - (redeclared - {TYPE_KEYS[slot.kind]})


def _section(values: Mapping[str, Any], slot: Slot) -> dict[str, Any]:
    section = schema_tree.find(values, slot.section)
    return section if isinstance(section, dict) else {}


def _name(section: Mapping[str, Any], slot: Slot) -> str | None:
    name = section.get(TYPE_KEYS[slot.kind])
    return name if isinstance(name, str) else None
