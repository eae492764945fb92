"""Whether what a component names is there, from the files alone: nothing of it is imported."""

from __future__ import annotations

import ast
from importlib.util import find_spec
from pathlib import Path

from rlcore.contracts.errors import did_you_mean
from rlcore.contracts.specs import ComponentSpec, Kind
from rlcore.plugins.registry import Registry


def rows(registry: Registry, chosen: set[tuple[str, str]] | None) -> list[dict[str, str]]:
    """A row of `rlcore doctor` for each component that names what is not there; of those
    `(kind, name)` that are chosen, or of all."""
    kinds: tuple[Kind, ...] = ("env", "model", "algorithm", "tracker", "placement", "command")
    found = []
    for component in [one for kind in kinds for one in registry.components(kind)]:
        spec = component.spec
        asked = chosen is None or (spec.kind, spec.name) in chosen
        if asked and (fault := listed_fault(spec)):
            fix = f"its author: rlcore check {spec.kind} {spec.name}"
            name = f"{spec.kind} {spec.name}"
            found.append({"name": name, "status": "missing", "detail": fault, "fix": fix})
    return found


def listed_fault(spec: ComponentSpec) -> str:
    """What of its strings names a module or an attribute that is not there; empty if nothing does,
    or the files don't tell."""
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
    return ""


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
