"""Check settings for `rlcore check`: a component's attributes that are not keys, the component and
settings of a preset, and presets and recipes that can't be composed."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rlcore.api import compose
from rlcore.config.bind import SLOTS, default_settings
from rlcore.config.catalog import COMPONENT_GROUPS, EXPERIMENT, TYPE_KEYS, Catalog
from rlcore.config.schema_tree import value_of
from rlcore.contracts.errors import MissingPackageError, UserError
from rlcore.contracts.specs import Kind
from rlcore.plugins.registry import Component, Registry
from rlcore_tools.check.targets import HOOKSPECS, Finding

GROUPS = (*COMPONENT_GROUPS, "env/train", "env/eval", EXPERIMENT)
VALUES = (bool, int, float, str, list, tuple, dict)


def component_of(
    registry: Registry, kind: Kind, name: str
) -> tuple[Component, dict[str, Any]] | None:
    """Return the component that a preset configures, and its settings; None if it does not exist.

    Raises:
        UserError: the preset can't be composed.
    """
    if kind not in COMPONENT_GROUPS or Catalog(registry).file(kind, name) is None:
        return None
    run = compose(f"{kind}={name}", draft=True)
    section = value_of(run, next(slot.section for slot in SLOTS if slot.kind == kind))
    settings = dataclasses.asdict(section)
    return registry.get(kind, settings.pop(TYPE_KEYS[kind])), settings


def settings_findings(registry: Registry, component: Component) -> Iterator[Finding]:
    """Yield the faults of a component's settings class: it can't be built, or a key has no type."""
    spec = component.spec
    contract = f"{HOOKSPECS}, {spec.kind}"
    slot = next((slot for slot in SLOTS if slot.kind == spec.kind), None)
    if slot is None or spec.config is None:
        return
    fix = 'declare keys as name: type = key("what it means, with its unit", default)'
    try:
        settings: Any = default_settings(registry, slot, spec.name)
    except UserError as error:
        yield Finding(f"config: {error.message}", contract, error.hint or fix)
        return
    # keys, and attributes that a base class declares as ClassVar for its subclasses to set
    declared = {name for cls in type(settings).__mro__ for name in inspect.get_annotations(cls)}
    for name, value in vars(type(settings)).items():
        if isinstance(value, VALUES) and not name.startswith("_") and name not in declared:
            fault = f"config: {spec.config}: {name} = {value!r} has no type, so it is no key"
            yield Finding(fault, contract, fix)


def preset_findings(folder: Path | None) -> Iterator[Finding]:
    """Yield the presets and recipes in a configuration folder that can't be composed.

    Of files with the same error only the first is reported.
    """
    reported = set[str]()
    if folder is None:
        return
    for group in GROUPS:
        for file in sorted(folder.joinpath(group).glob("*.yaml")):
            try:
                compose(f"{group}={file.stem}", draft=True)
            except UserError as error:
                if error.message in reported:
                    continue
                reported.add(error.message)
                absent = isinstance(error, MissingPackageError)  # users may have the package
                fix = error.hint or ("install it" if absent else "correct the file")
                yield Finding(
                    f"{file}: {error.message}",
                    f"{HOOKSPECS}, rlcore_config_paths",
                    fix,
                    warning=absent,
                )
