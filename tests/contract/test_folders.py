"""Imports lead one way: no circle of files or folders. Tests stand where what they test stands."""

from __future__ import annotations

from pathlib import Path

import pytest
from import_graph import circle, folders, imports_of

ROOT = Path(__file__).parents[2]
PACKAGES = [
    ROOT / "rlcore",
    *sorted(path.parent for path in ROOT.glob("plugins/**/rlcore_*/__init__.py")),
]
NAMES = [package.name for package in PACKAGES]


def test_all_packages_are_looked_at():
    assert len(PACKAGES) == 1 + len(list(ROOT.glob("plugins/**/pyproject.toml")))


@pytest.mark.parametrize("package", PACKAGES, ids=NAMES)
def test_no_file_leads_back_to_itself(package):
    assert circle(imports_of(package)) == []


@pytest.mark.parametrize("package", PACKAGES, ids=NAMES)
def test_no_folder_leads_back_to_itself(package):
    assert circle(folders(imports_of(package), package)) == []


def test_unit_tests_stand_where_what_they_test_stands():
    tests = ROOT / "tests/unit"
    parts = {file.relative_to(tests).parts[0] for file in tests.rglob("test_*.py")}
    names = {part.removeprefix("test_").removesuffix(".py") for part in parts}
    parts_of_core = {path.stem for path in (ROOT / "rlcore").iterdir()}
    assert not [name for name in names if name not in parts_of_core and not (ROOT / name).is_dir()]


def write(package: Path, **files: str) -> Path:
    for name, text in files.items():
        file = package / f"{name.replace('__of__', '/')}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        (file.parent / "__init__.py").touch()
    (package / "__init__.py").touch()
    return package


@pytest.mark.parametrize(
    "text",
    [
        "from p.b import two",
        "import p.b.two",
        "def f():\n    from p.b.two import x",
        "if TYPE_CHECKING:\n    from p.b.two import x",
        "TARGET = 'p.b.two:x'",
    ],
)
def test_a_circle_of_folders_is_found_however_it_is_imported(tmp_path, text):
    back = "from p.a import other"
    package = write(tmp_path / "p", a__of__one=text, a__of__other="", b__of__two=back)
    graph = imports_of(package)
    assert circle(graph) == []
    assert circle(folders(graph, package)) in (["p.a", "p.b", "p.a"], ["p.b", "p.a", "p.b"])


def test_a_relative_import_is_refused_as_it_would_be_missed(tmp_path):
    package = write(tmp_path / "p", a__of__one="from . import two", a__of__two="")
    with pytest.raises(ValueError):
        imports_of(package)


def test_a_circle_of_files_in_one_folder_is_found(tmp_path):
    package = write(tmp_path / "p", a__of__one="from p.a import two", a__of__two="import p.a.one")
    graph = imports_of(package)
    assert set(circle(graph)) == {"p.a.one", "p.a.two"}
    assert circle(folders(graph, package)) == []


def test_a_module_of_the_package_itself_is_a_folder_of_its_own(tmp_path):
    package = write(tmp_path / "p", a__of__one="import p.low", low="", high="import p.a.one")
    assert circle(folders(imports_of(package), package)) == []
    (package / "low.py").write_text("import p.a.one")
    assert circle(folders(imports_of(package), package)) != []
