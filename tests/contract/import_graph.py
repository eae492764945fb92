"""Which modules of a package import which, and whether that ever leads back.

Every import counts: at the top of a file, inside a function, under `TYPE_CHECKING`; and a string of
the form "module:attr", which is loaded as a target.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

TABLE = "moved"  # old and new names of modules: it loads none of them
Graph = Mapping[str, set[str]]


def imports_of(package: Path) -> dict[str, set[str]]:
    """`{module: modules of the same package it imports}`, with dotted names."""
    modules = {_dotted(file, package): file for file in sorted(package.rglob("*.py"))}
    return {
        name: {
            found
            for node in ast.walk(ast.parse(file.read_text()))
            for found in [*_imported(node, modules), *_named(node, modules)]
            if found != name
        }
        for name, file in modules.items()
        if file.stem != TABLE
    }


def folders(graph: Graph, package: Path) -> dict[str, set[str]]:
    """The same between folders. A folder's `__init__.py` belongs to it; a module that stands in
    the package itself counts as a folder of its own, and the package's `__init__.py` not at all."""
    root = package.name

    def home(module: str) -> str:
        parts = module.split(".")
        if (package.parent.joinpath(*parts)).is_dir() or len(parts) == 2:
            return module
        return ".".join(parts[:-1])

    result: dict[str, set[str]] = {}
    for module, imported in graph.items():
        if module != root:
            result.setdefault(home(module), set()).update(
                home(each) for each in imported - {root} if home(each) != home(module)
            )
    return result


def circle(graph: Graph) -> list[str]:
    """A way through the graph that comes back to where it began; empty where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def _dotted(file: Path, package: Path) -> str:
    parts = file.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def _named(node: ast.AST, modules: Iterable[str]) -> list[str]:
    """The module that a string "module:attr" names, if it is one of `modules`."""
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        return []
    module, colon, name = node.value.partition(":")
    return [module] if colon and name.isidentifier() and module in modules else []


def _imported(node: ast.AST, modules: Iterable[str]) -> Iterable[str]:
    """The modules among `modules` that one statement imports.

    Raises:
        ValueError: a relative import, which would be missed.
    """
    if isinstance(node, ast.ImportFrom) and node.level:
        raise ValueError(f"relative import in line {node.lineno}: write the whole name")
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names if alias.name in modules]
    if isinstance(node, ast.ImportFrom) and node.module:
        inside = [f"{node.module}.{alias.name}" for alias in node.names]
        return [
            each if each in modules else node.module
            for each in inside
            if each in modules or node.module in modules
        ]
    return []
