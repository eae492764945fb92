"""The public modules of core (docs/public-modules.csv): their names and signatures as text.

Nothing is imported, so a signature reads the same with every Python and whatever is installed.
"""

from __future__ import annotations

import ast
import csv
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from rlcore.contracts.version import API_VERSION

ROOT = Path(__file__).parents[2]
LIST = ROOT / "docs/public-modules.csv"
MODULES = {
    row["module"]: tuple(row["public names"].split()) if row["public names"] != "all" else ()
    for row in csv.DictReader(LIST.read_text().splitlines())
}
"""The list: `{module: names}`; no names: all that the module defines."""
LONGEST = 60  # characters of a constant that are still shown
Definition = ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign


def signatures() -> str:
    """All public names, one block a module."""
    blocks = [f"API {'.'.join(map(str, API_VERSION))}\n"]
    for module, listed in MODULES.items():
        lines = [line for name in listed or names_of(module) for line in _shown(module, name)]
        blocks.append("\n".join([module, *(f"  {line}" for line in lines)]) + "\n")
    return "\n".join(blocks)


@lru_cache
def names_of(module: str) -> list[str]:
    """What a module offers: `__all__`, or else all that it defines without an underscore, and what
    it imports as itself."""
    found: list[str] = []
    for node in _tree(module).body:
        if isinstance(node, ast.Assign) and _targets(node) == ["__all__"]:
            return sorted(ast.literal_eval(node.value))
        if isinstance(node, Definition):
            found += _targets(node)
        for each in ast.walk(node):  # under `if TYPE_CHECKING` too
            if isinstance(each, ast.ImportFrom):
                found += [name.name for name in each.names if name.asname == name.name]
    return sorted(name for name in set(found) if not name.startswith("_"))


def definition(module: str, name: str) -> Definition:
    """Where a name is defined; what a module imports from another of core is followed, unless it
    defines the name too (a function may import its namesake).

    Raises:
        LookupError: nowhere.
    """
    for node in _tree(module).body:
        if isinstance(node, Definition) and name in _targets(node):
            return node
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("rlcore"):
            for each in node.names:
                if (each.asname or each.name) == name and node.module != module:
                    return definition(str(node.module), each.name)
    raise LookupError(f"{module} has no {name}")


def file_of(module: str) -> Path:
    """The file of a module of core, or of a package."""
    path = ROOT.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@lru_cache
def _tree(module: str) -> ast.Module:
    return ast.parse(file_of(module).read_text())


def _targets(node: Definition) -> list[str]:
    if isinstance(node, ast.Assign):
        return [each.id for target in node.targets for each in ast.walk(target)
                if isinstance(each, ast.Name)]  # fmt: skip
    return [ast.unparse(node.target)] if isinstance(node, ast.AnnAssign) else [node.name]


def _shown(module: str, name: str) -> Iterator[str]:
    node = definition(module, name)
    if name.startswith("__"):  # a version is no signature
        yield name
        return
    if not isinstance(node, ast.ClassDef):
        yield _line(node, name)
        return
    yield from (f"@{ast.unparse(each)}" for each in node.decorator_list)
    bases = ", ".join(map(ast.unparse, [*node.bases, *(each.value for each in node.keywords)]))
    yield f"class {name}({bases})" if bases else f"class {name}"
    for member in node.body:
        if not isinstance(member, Definition):
            continue
        (label,) = _targets(member) if not isinstance(member, ast.Assign) else [_first(member)]
        if label == "__init__" or not label.startswith("_"):
            marks = member.decorator_list if isinstance(member, ast.FunctionDef) else []
            yield from (f"  @{ast.unparse(each)}" for each in marks)
            yield f"  {_line(member, label)}"


def _first(node: ast.Assign) -> str:
    return ", ".join(_targets(node))


def _line(node: Definition, name: str) -> str:
    if isinstance(node, ast.FunctionDef):
        returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
        return f"def {name}({ast.unparse(node.args)}){returns}"
    if isinstance(node, ast.ClassDef):
        return f"class {name}"
    kind = f": {ast.unparse(node.annotation)}" if isinstance(node, ast.AnnAssign) else ""
    value = "" if node.value is None else _default(node.value)
    return f"{name}{kind} = {value}" if value and len(value) <= LONGEST else f"{name}{kind}"


def _default(value: ast.expr) -> str:
    """The value of a field or constant; of a key of the configuration its default alone."""
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "key":
        return ast.unparse(value.args[1]) if len(value.args) > 1 else ""
    return ast.unparse(value)


def imported(source: str) -> Iterator[tuple[str, str]]:
    """(module of core, name) of all that a source imports, and of all that it takes from a module
    that it imports as a whole."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((each.name, "") for each in node.names if _of_core(each.name))
        elif isinstance(node, ast.ImportFrom) and node.module and _of_core(node.module):
            for each in node.names:
                inside = f"{node.module}.{each.name}"
                if file_of(inside).exists():
                    yield from ((inside, name) for name in _taken(tree, each.asname or each.name))
                else:
                    yield node.module, each.name


def _taken(tree: ast.Module, module: str) -> set[str]:
    """The names that are taken from an imported module: `module.name`."""
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == module
    }


def _of_core(module: str) -> bool:
    return module.split(".")[0] == "rlcore"


def is_public(module: str, name: str, also: Sequence[str] = ()) -> bool:
    """Whether an import is of what the list offers, or of one of the modules in `also`."""
    if module in also:
        return True
    if module not in MODULES:
        return False
    return not name or name in (MODULES[module] or names_of(module))
