"""Every distribution declares what it imports: that another one brings it along is no promise."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECTS = [ROOT / "pyproject.toml", *sorted(ROOT.glob("plugins/**/pyproject.toml"))]
# Core asks it for models of the hub's cache where it is installed, and a model brings it.
BROUGHT_BY_MODELS = {"huggingface_hub"}
# rlcore.make_env alone needs it, and says so where it is not installed.
OF_MAKE_ENV = {"gymnasium"}


def listed(project: Path, key: str, *, missing: str | None = None) -> list[str]:
    """A list of strings, which TOML writes as Python does; `missing`: where there is none."""
    found = re.search(rf"^{key} = (\[.*?\])$", project.read_text(), re.MULTILINE | re.DOTALL)
    if found is None and missing is not None:
        return list(ast.literal_eval(missing))
    assert found, f"{project} has no {key}"
    strings: list[str] = ast.literal_eval(found[1])
    return strings


def extras(project: Path) -> list[str]:
    """Requirements of all its extras."""
    table = project.read_text().partition("[project.optional-dependencies]")[2]
    return re.findall(r'"([^"]+)"', table.partition("\n[")[0])


def imported(folder: Path) -> Iterator[tuple[str, Path]]:
    """Top-level names that its files import, wherever in them, and the file."""
    for file in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                yield from ((alias.name.split(".")[0], file) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                yield node.module.split(".")[0], file


def distributions() -> dict[str, set[str]]:
    """Those that hold a package, by its name; ours as the repository has them."""
    found = {
        name: set(map(canonicalize_name, each)) for name, each in packages_distributions().items()
    }
    for project in PROJECTS:
        name = re.search(r'^name = "(.+)"', project.read_text(), re.MULTILINE)
        assert name
        for package in listed(project, "packages"):
            found[package] = {canonicalize_name(name[1])}
    return found


DISTRIBUTIONS = distributions()


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.parent.name)
def test_what_is_imported_is_declared(project):
    packages = listed(project, "packages")
    # what pip must install without its requirements comes by a command of the plugin
    by_command = listed(project, "installed-by-command", missing="[]")
    # a plugin's extra is a part of it that says itself what to install where it lacks that
    of_extras = [] if project == PROJECTS[0] else extras(project)
    required = [*listed(project, "dependencies"), *by_command, *of_extras]
    declared = {canonicalize_name(Requirement(d).name) for d in required}
    known = {*sys.stdlib_module_names, *packages}
    known |= BROUGHT_BY_MODELS | OF_MAKE_ENV if project == PROJECTS[0] else set()
    missing = {
        f"{name} ({file.relative_to(project.parent)})"
        for package in packages
        for name, file in imported(project.parent / package)
        # one that is not installed here is taken to be called as its package
        if name not in known and not DISTRIBUTIONS.get(name, {canonicalize_name(name)}) & declared
    }
    assert not missing, f"{project} does not declare {sorted(missing)}"


def test_the_check_sees_all_kinds_of_imports(tmp_path):
    code = "import a.b, c\nfrom d.e import f\nfrom . import g\ndef h():\n    import i as j\n"
    (tmp_path / "module.py").write_text(code)
    assert [name for name, _ in imported(tmp_path)] == ["a", "c", "d", "i"]
