"""Record which third-party components `rlcore check` has checked; recommend it for the others."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from rlcore.contracts.specs import Kind
from rlcore.plugins import extras
from rlcore.plugins.registry import Component, Registry
from rlcore.plugins.trial_import import cache_folder


def note(component: Component) -> None:
    """Record that a component was checked, whatever the result. Errors of the disk are ignored."""
    with suppress(OSError):
        _file(component).parent.mkdir(parents=True, exist_ok=True)
        _file(component).touch()


def rows(registry: Registry, chosen: set[tuple[Kind, str]]) -> list[dict[str, str]]:
    """Return a row of `rlcore doctor` for each third-party plugin with unchecked components.

    Args:
        chosen: (kind, name) of the components that a run chose; others are ignored. A component
            counts as checked if its installed version was.
    """
    unchecked: dict[str, list[str]] = {}
    for kind, name in sorted(chosen):
        for component in registry.components(kind):
            is_checked = extras.is_ours(component.distribution) or _file(component).is_file()
            if component.spec.name == name and not is_checked:
                unchecked.setdefault(component.plugin, []).append(f"{kind} {name}")
    detail = "never checked here for what a run can't see, such as starts that don't repeat"
    return [
        {
            "name": f"plugin {name}",
            "status": "warning",
            "detail": f"{', '.join(components)}: {detail}",
            "fix": f"rlcore check {name}",
        }
        for name, components in unchecked.items()
    ]


def _file(component: Component) -> Path:
    spec = component.spec
    version = f"{component.distribution}-{component.version}"
    return cache_folder() / "checked" / f"{version}-{spec.kind}-{spec.name}"
