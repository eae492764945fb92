"""Tests use public names of core, so that a rename in core does not break them (CONTRIBUTING.md).

A test in `tests/unit/PART` may also import the private modules of `rlcore/PART`, and all tests what
`tests/support/internals.py` imports for them. No test reads, imports or replaces a name of ours
that begins with an underscore.

`not_yet_public.txt` lists the files that do not follow a rule yet, with the names. Such a file
tests a private module of another part, and is to move into that part's folder; or it looks into an
object because nothing public shows what it tests. The list is only to get shorter. To write it
anew: `python tests/contract/test_imports_of_tests.py`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

import pytest
from public_api import imported, is_public

ROOT = Path(__file__).parents[2]
INTERNALS = ROOT / "tests/support/internals.py"
LIST = Path(__file__).with_name("not_yet_public.txt")
IMPORTS = "Private imports"
ATTRIBUTES = "Names with an underscore"
OF_NAMED_TUPLES = {"_asdict", "_fields", "_make", "_replace"}
DEFINITION = re.compile(
    r"""^\s*(?:async\ )?(?:def|class)\ (_\w+)  # a function, a method, a class
    |^(?:\ {4})?(_\w+)(?::\ .*)?\ =\  # a variable of a module or a class
    |\b(?:self|cls)\.(_\w+)(?::\ .*)?\ =\  # an attribute""",
    re.MULTILINE | re.VERBOSE,
)
Names = dict[str, set[str]]


def files_of_tests() -> list[Path]:
    folders = [ROOT / "tests", *ROOT.glob("plugins/**/tests")]
    return sorted({file for folder in folders for file in folder.rglob("*.py")} - {INTERNALS})


def room_of(file: Path) -> str:
    """Return the folder or module of core whose private modules a test may import, or ""."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    return f"rlcore.{parts[2].removeprefix('test_')}" if parts[:2] == ("tests", "unit") else ""


def private_imports(source: str, room: str = "") -> set[str]:
    """Return the private names of core, as `module:name`, that a source imports or patches.

    Args:
        source: the text of a Python file.
        room: the folder or module of core whose private names are allowed.
    """
    found = set()
    for module, name in [*imported(source), *_patched(source)]:
        own = room and f"{module}.".startswith(f"{room}.")
        if not own and not name.startswith("__") and not is_public(module, name):
            found.add(f"{module}:{name}")
    return found


def private_attributes(source: str, ours: frozenset[str]) -> set[str]:
    """Return the names of `ours` that a source reads, imports or replaces on something else than
    `self` or `cls`."""
    found: set[str] = set()
    if ours.isdisjoint(re.findall(r"\b_\w+", source)):  # most files: no need to parse them
        return found
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in ours:
            if ast.unparse(node.value) not in ("self", "cls"):
                found.add(node.attr)
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Call) and _replaces(node):
            constants = [each.value for each in node.args[:2] if isinstance(each, ast.Constant)]
            found |= {str(value).rpartition(".")[2] for value in constants}
    return found & ours


@lru_cache
def underscored_names() -> frozenset[str]:
    """Return the names with an underscore that core and the plugins define: modules' and classes'
    names, methods, and attributes of instances."""
    files = [*ROOT.glob("rlcore/**/*.py"), *ROOT.glob("plugins/**/rlcore_*/**/*.py")]
    found: set[str] = set()
    for file in files:
        for names in DEFINITION.findall(file.read_text()):
            found |= set(names)
    return frozenset(name for name in found - OF_NAMED_TUPLES if name and name[-2:] != "__")


def _patched(source: str) -> Iterator[tuple[str, str]]:
    """Yield (module, name) of what `monkeypatch.setattr("rlcore.module.name", ...)` replaces."""
    calls = ast.walk(ast.parse(source)) if "setattr" in source else ()
    for node in calls:
        if isinstance(node, ast.Call) and _replaces(node) and node.args:
            target = getattr(node.args[0], "value", None)
            if isinstance(target, str) and target.startswith("rlcore."):
                module, _, name = target.rpartition(".")
                yield module, name


def _replaces(call: ast.Call) -> bool:
    """Return whether a call is `setattr(...)` or `monkeypatch.setattr(...)`."""
    return getattr(call.func, "attr", getattr(call.func, "id", "")) == "setattr"


def imports_not_allowed() -> Names:
    return _by_file(lambda file: private_imports(file.read_text(), room_of(file)))


def attributes_not_allowed() -> Names:
    return _by_file(lambda file: private_attributes(file.read_text(), underscored_names()))


def _by_file(find: Callable[[Path], set[str]]) -> Names:
    found = {file.relative_to(ROOT).as_posix(): find(file) for file in files_of_tests()}
    return {place: names for place, names in found.items() if names}


def _new(found: Names, title: str) -> Names:
    """Return what was found and is not in the list."""
    allowed = _listed()[title]
    new = {place: names - allowed.get(place, set()) for place, names in found.items()}
    return {place: names for place, names in new.items() if names}


def _listed() -> dict[str, Names]:
    """Return the list of the files that do not follow a rule yet: `{title: {file: names}}`."""
    tables: dict[str, Names] = {}
    for line in LIST.read_text().splitlines():
        if line.startswith("# "):
            table = tables.setdefault(line.removeprefix("# "), {})
        else:
            place, *names = line.split()
            table[place] = set(names)
    return tables


def test_tests_import_public_names_their_own_part_and_internals():
    assert _new(imports_not_allowed(), IMPORTS) == {}


def test_no_test_uses_an_underscored_name_of_ours():
    assert _new(attributes_not_allowed(), ATTRIBUTES) == {}


@pytest.mark.parametrize(
    ("source", "room", "expected"),
    [
        ("from rlcore.contracts.specs import Episode", "", set()),
        ("from rlcore.runs.checkpoint import save", "", {"rlcore.runs.checkpoint:save"}),
        ("from rlcore.runs.checkpoint import save", "rlcore.runs", set()),
        ("from rlcore.runs.checkpoint import save", "rlcore.run", {"rlcore.runs.checkpoint:save"}),
        ("patch.setattr('rlcore.training.train.keep', 1)", "", {"rlcore.training.train:keep"}),
        ("from rlcore_ray.group import RayGroup", "", set()),
    ],
)
def test_the_reader_of_private_imports(source, room, expected):
    assert private_imports(source, room) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("worker._policy", {"_policy"}),
        ("self._policy = 1", set()),
        ("from rlcore_serve.command import _policy", {"_policy"}),
        ("monkeypatch.setattr(worker, '_policy', None)", {"_policy"}),
        ("monkeypatch.setattr('module._policy', None)", {"_policy"}),
        ("row._replace(a=1)\nos._exit(1)", set()),
    ],
)
def test_the_reader_of_underscored_names(source, expected):
    assert private_attributes(source, frozenset({"_policy"})) == expected


if __name__ == "__main__":
    lines = []
    for title, found in ((IMPORTS, imports_not_allowed()), (ATTRIBUTES, attributes_not_allowed())):
        lines.append(f"# {title}")
        lines += [" ".join([place, *sorted(names)]) for place, names in found.items()]
    LIST.write_text("\n".join([*lines, ""]))
