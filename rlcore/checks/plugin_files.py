"""Check third-party plugins without importing their components: targets, settings, configuration.

rlcore's own plugins are skipped, because its tests check them. Light.
"""

from __future__ import annotations

import symtable
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from importlib.util import decode_source, find_spec
from pathlib import Path

from rlcore.checks.doctor_rows import Row, row
from rlcore.contracts.component import KINDS, ComponentSpec
from rlcore.contracts.errors import did_you_mean
from rlcore.plugins import extras
from rlcore.plugins.registry import PluginRow, Registry


def checked_rows(registry: Registry, rows: Sequence[PluginRow]) -> list[PluginRow]:
    """Return the rows of `rlcore plugins`, with those of faulty third-party components marked BAD.

    A row is added for each fault in a plugin's settings or configuration.
    """
    faults = dict(_component_faults(registry))
    checked = [
        replace(row, status="BAD", reason=faults[row.kind, row.name])
        if row.status != "BAD" and (row.kind, row.name) in faults
        else row
        for row in rows
    ]
    versions = {row.distribution: row.version for row in rows}
    plugin_faults = [*_settings_faults(registry), *_configuration_faults(registry)]
    return checked + [
        PluginRow("plugin", name, name, versions.get(name, "?"), "BAD", fault)
        for name, fault in plugin_faults
    ]


def doctor_rows(registry: Registry, chosen: Collection[tuple[str, str]] | None) -> list[Row]:
    """Return a row of `rlcore doctor` for each third-party component that names a missing target.

    Args:
        chosen: (kind, name) of the components of a run, which gets rows of BAD plugins too; None
            for all components.
    """
    rows = [
        row(f"{kind} {name}", fault, "missing", f"its author: rlcore check {kind} {name}")
        for (kind, name), fault in _component_faults(registry)
        if chosen is None or (kind, name) in chosen
    ]
    for plugin in registry.rows() if chosen is not None else ():
        if (plugin.kind, plugin.status) == ("plugin", "BAD"):
            detail = f"the run goes without it: {plugin.reason}"
            fix = f"rlcore check {plugin.name}"
            rows.append(row(f"plugin {plugin.name}", detail, "warning", fix))
    return rows


def configuration_faults(distribution: str, folder: str) -> Iterator[str]:
    """Yield why a configuration folder can't be used: it is missing, or a file can't be read.

    Args:
        distribution: distribution of the plugin.
        folder: the folder, as path or `pkg://PACKAGE`.
    """
    from rlcore.files.reading import (  # not at the top: imports a YAML parser
        UnreadableError,
        read_yaml,
    )

    path = configuration_folder(folder)
    if path is None:
        yield f"{folder} of {distribution} is no package"
    elif not path.is_dir():
        yield f"{folder} of {distribution} is no folder"
    else:
        for file in sorted(path.rglob("*.yaml")):
            try:
                read_yaml(file)
            except UnreadableError as error:
                yield f"{file} can't be read: {' '.join(str(error).split())}"


def configuration_folder(folder: str) -> Path | None:
    """Return the path of a configuration folder; None for a package that does not exist.

    Args:
        folder: path or `pkg://PACKAGE`.
    """
    package = folder.removeprefix("pkg://")
    if package == folder:
        return Path(folder)
    try:
        spec = find_spec(package)
    except ImportError:
        return None
    locations = spec and spec.submodule_search_locations
    return Path(next(iter(locations))) if locations else None


def target_fault(target: str) -> str:
    """Return why a target `module:name` does not exist, from source files; empty if it may exist.

    Modules without Python source are not checked.
    """
    module, _, name = target.partition(":")
    package, *inner = module.split(".")
    try:
        spec = find_spec(package)
    except (ImportError, ValueError):
        return ""
    if spec is None:
        return f"there is no module {package}"
    if spec.origin is None or not spec.origin.endswith(".py"):
        return ""
    place = Path(spec.origin).parent.joinpath(*inner)
    files = [place.with_suffix(".py"), place / "__init__.py"] if inner else [Path(spec.origin)]
    file = next((file for file in files if file.is_file()), None)
    if file is None:
        # a folder is a namespace package, another suffix that of an extension module
        exists = place.is_dir() or any(place.parent.glob(f"{place.name}.*"))
        return "" if exists else f"there is no module {module}"
    try:
        source = file.read_bytes()
        symbols = symtable.symtable(decode_source(source), str(file), "exec").get_symbols()
    except (SyntaxError, ValueError) as error:
        return f"{file} can't be read: {error}"
    names = {s.get_name() for s in symbols if s.is_assigned() or s.is_imported()}
    if name in names or "__getattr__" in names or b"import *" in source:
        return ""
    return f"{module} has no {name!r}.{did_you_mean(name, names)}"


def _component_faults(registry: Registry) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield ((kind, name), fault) of the third-party components that name a missing target."""
    for kind in KINDS:
        for component in registry.components(kind):
            if not extras.is_ours(component.distribution):
                fault = _spec_fault(component.spec)
                if fault:
                    yield (kind, component.spec.name), fault


def _spec_fault(spec: ComponentSpec) -> str:
    targets = {"target": spec.target, "config": spec.config, "spec": spec.spec}
    for field, target in targets.items():
        fault = target_fault(target) if target else ""
        if fault:
            return f"{field}: {target}: {fault}"
    return ""


def _settings_faults(registry: Registry) -> Iterator[tuple[str, str]]:
    """Yield (plugin, fault) of third-party settings that can't be built, as every run builds them.

    Imports the settings classes.
    """
    for name, target in registry.settings.items():
        if not extras.is_ours(target.partition(".")[0]):
            from rlcore.config.bind import plugin_settings  # not at the top: loads the schema

            try:
                plugin_settings({name: target})
            except Exception as error:  # third-party code may raise anything
                first_line = str(error).partition("\n")[0]
                yield name, f"rlcore_settings, {first_line}"


def _configuration_faults(registry: Registry) -> Iterator[tuple[str, str]]:
    for distribution, folder in registry.config_paths:
        if not extras.is_ours(distribution):
            for fault in configuration_faults(distribution, folder):
                yield distribution, fault
