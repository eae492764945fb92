"""Check that the targets which components name exist, from source files alone, without imports."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from inspect import Parameter, Signature
from pathlib import Path

from rlcore.contracts.component import ComponentSpec, Kind
from rlcore.contracts.errors import did_you_mean
from rlcore.plugins import extras
from rlcore.plugins.registry import PluginRow, Registry
from rlcore_tools.check.targets import (
    SPECS,
    TARGETS,
    configuration_findings,
    signature_fault,
)
from rlcore_tools.doctor import Row, row


def marked(registry: Registry, rows: Sequence[PluginRow]) -> list[PluginRow]:
    """Return the rows of `rlcore plugins` with faults of third-party components marked BAD.

    A component is BAD if a target that it names does not exist or can't be called as rlcore calls
    it. Rows are added for plugins whose settings or configuration files have faults.
    """
    faults: dict[tuple[str, str], str] = {}
    versions = {one.distribution: one.version for one in rows}
    kinds: set[Kind] = {one.kind for one in rows}  # type: ignore[misc]  # "plugin" has none
    for spec in _of_strangers(registry, kinds):
        faults[spec.kind, spec.name] = listed_fault(spec)
    told = [
        replace(one, status="BAD", reason=fault)
        if one.status != "BAD" and (fault := faults.get((one.kind, one.name)))
        else one
        for one in rows
    ]
    told += [
        PluginRow("plugin", name, "?", "?", "BAD", f"rlcore_settings, {fault}")
        for name, target in registry.settings.items()
        if not extras.is_ours(target.partition(".")[0]) and (fault := _settings_fault(name, target))
    ]
    return told + [
        PluginRow("plugin", name, name, versions.get(name, "?"), "BAD", found.what)
        for name, folder in registry.config_paths
        if not extras.is_ours(name)
        for found in configuration_findings(name, folder)
    ]


def rows(registry: Registry, chosen: set[tuple[Kind, str]] | None) -> list[Row]:
    """Return a row of `rlcore doctor` for each third-party component with a fault in its targets.

    Args:
        chosen: (kind, name) of the components to check; None for all.
    """
    kinds: tuple[Kind, ...] = ("env", "model", "algorithm", "tracker", "placement", "command")
    found = []
    for spec in _of_strangers(registry, kinds):
        asked = chosen is None or (spec.kind, spec.name) in chosen
        if asked and (fault := listed_fault(spec)):
            name = f"{spec.kind} {spec.name}"
            found.append(row(name, fault, "missing", f"its author: rlcore check {name}"))
    return found


def _of_strangers(registry: Registry, kinds: Iterable[Kind]) -> list[ComponentSpec]:
    """Return the specs of third-party components.

    rlcore's own are skipped, because its tests check them and parsing them takes a second.
    """
    found = [one for kind in kinds for one in registry.components(kind)]
    return [one.spec for one in found if not extras.is_ours(one.distribution)]


def left_out(registry: Registry) -> list[Row]:
    """Return a row of `rlcore doctor` for each BAD plugin, whose hooks a run does not call."""
    bad = [one for one in registry.rows() if one.status == "BAD" and one.kind == "plugin"]
    said = "the run goes without it"
    return [
        row(f"plugin {one.name}", f"{said}: {one.reason}", "warning", f"rlcore check {one.name}")
        for one in bad
    ]


def _settings_fault(name: str, target: str) -> str:
    """Return why a plugin's settings can't be built, as every run builds them; empty if they can.

    Unlike the other checks of this module, this imports the settings class.
    """
    if fault := listed_fault(ComponentSpec("function", name, target)):
        return fault
    from rlcore.config.bind import plugin_settings

    try:
        plugin_settings({name: target})
    except Exception as error:  # third-party code may raise anything
        return str(error).partition("\n")[0]
    return ""


def listed_fault(spec: ComponentSpec) -> str:
    """Return the first fault in the targets that a component names; empty if none is found.

    A fault is a missing module, a missing attribute, an unreadable file, or a signature that can't
    be called as rlcore calls it. Modules without Python source are not checked.
    """
    for field in ("target", "config", "spec"):
        named = getattr(spec, field)
        if named is None:
            continue
        module, _, attribute = named.partition(":")
        top, *inner = module.split(".")
        try:
            found = find_spec(top)
        except (ImportError, ValueError):
            continue
        if found is None:
            return f"{field}: {named}: there is no module {top}"
        if found.origin is None or not found.origin.endswith(".py"):
            continue
        place = Path(found.origin).parent.joinpath(*inner)
        files = [place.with_suffix(".py"), place / "__init__.py"] if inner else [Path(found.origin)]
        file = next((one for one in files if one.is_file()), None)
        if file is None:
            if place.is_dir() or any(place.parent.glob(f"{place.name}.*")):
                continue  # an extension module or a namespace package
            return f"{field}: {named}: there is no module {module}"
        try:
            tree = ast.parse(file.read_bytes())
        except (SyntaxError, ValueError) as error:
            return f"{field}: {named}: {file} can't be read: {error}"
        names = _defined(tree)
        if "*" not in names and attribute not in names:
            return (
                f"{field}: {named}: {module} has no {attribute!r}.{did_you_mean(attribute, names)}"
            )
        calls = {"target": TARGETS, "spec": SPECS}.get(field, {}).get(spec.kind)
        signature = _signature(tree, attribute)
        fault = signature_fault(signature, *calls) if calls and signature else ""
        if fault:
            return f"{field}: {named} {fault}"
    return ""


def _signature(tree: ast.Module, name: str) -> Signature | None:
    """Return the signature of a module's function or class; None if the source does not show it.

    That is the case for decorated and imported names, for classes without an own `__init__`, and
    for those with a metaclass or `__new__`.
    """
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == name and not node.decorator_list:
            return _of(node.args, skip=0)
        if isinstance(node, ast.ClassDef) and node.name == name and not node.decorator_list:
            own = [one for one in node.body if isinstance(one, ast.FunctionDef)]
            made = [one for one in own if one.name == "__init__" and not one.decorator_list]
            metaclass, remade = node.keywords, [one for one in own if one.name == "__new__"]
            return _of(made[0].args, skip=1) if made and not metaclass and not remade else None
    return None


def _of(arguments: ast.arguments, *, skip: int) -> Signature:
    """Return parsed arguments as an `inspect` signature, without the first `skip` parameters."""
    positional = [
        *((one, Parameter.POSITIONAL_ONLY) for one in arguments.posonlyargs),
        *((one, Parameter.POSITIONAL_OR_KEYWORD) for one in arguments.args),
    ]
    required = len(positional) - len(arguments.defaults)
    made = [
        Parameter(one.arg, kind, default=Parameter.empty if place < required else None)
        for place, (one, kind) in enumerate(positional)
    ][skip:]
    if arguments.vararg:
        made.append(Parameter(arguments.vararg.arg, Parameter.VAR_POSITIONAL))
    made += [
        Parameter(one.arg, Parameter.KEYWORD_ONLY, default=None if default else Parameter.empty)
        for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    if arguments.kwarg:
        made.append(Parameter(arguments.kwarg.arg, Parameter.VAR_KEYWORD))
    return Signature(made)


def _defined(tree: ast.Module) -> set[str]:
    """Return all names that a module may define, at any depth; with "*" if it has a star import."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names
