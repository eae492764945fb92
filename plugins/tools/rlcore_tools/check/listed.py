"""Whether what a component names is there, from the files alone: nothing of it is imported."""

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
    """The rows of `rlcore plugins`, BAD where a stranger's component names what is not there or
    can't be called as core calls it, or a stranger's configuration can't be read."""
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
    """A row of `rlcore doctor` for each component of a stranger that names what is not there; of
    those `(kind, name)` that are chosen, or of all."""
    kinds: tuple[Kind, ...] = ("env", "model", "algorithm", "tracker", "placement", "command")
    found = []
    for spec in _of_strangers(registry, kinds):
        asked = chosen is None or (spec.kind, spec.name) in chosen
        if asked and (fault := listed_fault(spec)):
            name = f"{spec.kind} {spec.name}"
            found.append(row(name, fault, "missing", f"its author: rlcore check {name}"))
    return found


def _of_strangers(registry: Registry, kinds: Iterable[Kind]) -> list[ComponentSpec]:
    """Those that are none of ours: our tests look at ours, and reading them takes a second."""
    found = [one for kind in kinds for one in registry.components(kind)]
    return [one.spec for one in found if not extras.is_ours(one.distribution)]


def left_out(registry: Registry) -> list[Row]:
    """A row of `rlcore doctor` for each plugin that is BAD: its hooks are not called in a run."""
    bad = [one for one in registry.rows() if one.status == "BAD" and one.kind == "plugin"]
    said = "the run goes without it"
    return [
        row(f"plugin {one.name}", f"{said}: {one.reason}", "warning", f"rlcore check {one.name}")
        for one in bad
    ]


def _settings_fault(name: str, target: str) -> str:
    """Why a plugin's settings can't be made, as every run makes them; empty if they can."""
    if fault := listed_fault(ComponentSpec("function", name, target)):
        return fault
    from rlcore.config.bind import plugin_settings

    try:
        plugin_settings({name: target})
    except Exception as error:  # a stranger's class
        return str(error).partition("\n")[0]
    return ""


def listed_fault(spec: ComponentSpec) -> str:
    """What of its strings names a module or an attribute that is not there, or one that can't be
    called as core calls it; empty if nothing does, or the files don't tell."""
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
                continue  # compiled, or a namespace
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
    """How a function or a class of a module is called; None where the file alone does not tell."""
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
    """The same as `inspect` has it, without the first `skip`."""
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
    """Every name that a module may define, wherever in it; "*" where it imports all of another."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names
