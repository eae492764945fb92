"""What other distributions import of core is public, written down, and changes on purpose.

To write the signatures anew: `python tests/contract/test_public.py`. A change that breaks a plugin
also needs another `API_VERSION` (rlcore/plugins/validate.py).
The list is docs/public-modules.csv.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from public_api import MODULES, definition, file_of, imported, is_public, names_of, signatures

from rlcore.contracts.version import API_VERSION

ROOT = Path(__file__).parents[2]
SIGNATURES = ROOT / "docs/api-signatures.txt"
PACKAGES = sorted(path.parent for path in ROOT.glob("plugins/**/rlcore_*/__init__.py"))

MINIMAL = "examples/minimal.py"
"""The one file that may import what is not public: it shows the parts of `rlcore train`."""


def importers() -> list[Path]:
    packages = [file for package in PACKAGES for file in package.rglob("*.py")]
    return sorted([*packages, *ROOT.glob("examples/*.py")])


def private(file: Path) -> set[str]:
    """What a file imports that is not public."""
    return {
        f"{module}:{name}"
        for module, name in imported(file.read_text())
        if not is_public(module, name)
    }


def test_plugins_and_examples_import_public_names_alone():
    places = {file.relative_to(ROOT).as_posix(): private(file) for file in importers()}
    assert places.pop(MINIMAL)
    assert {place: names for place, names in places.items() if names} == {}


def test_what_the_docs_show_imports_public_names_alone():
    blocks = [
        (page.name, block)
        for page in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]
        for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    ]
    assert len(blocks) > 5
    lines = [
        (name, line.strip())
        for name, block in blocks
        for line in block.splitlines()
        if re.match(r"\s*(from|import) rlcore[.\s]", line)
    ]
    assert len(lines) > 10
    for name, line in lines:
        for module, taken in imported(line):
            assert is_public(module, taken), f"{name}: {line}"


def test_what_is_listed_is_there():
    for module, names in MODULES.items():
        assert file_of(module).is_file(), module
        for name in names or names_of(module):
            definition(module, name)


def test_signatures_change_on_purpose():
    assert SIGNATURES.read_text() == signatures(), (
        "a public signature has changed; if that is meant: python tests/contract/test_public.py"
    )


def test_the_page_names_public_modules_and_the_version():
    page = (ROOT / "docs/api.md").read_text()
    named = re.findall(r"`(rlcore[.\w]*)`", page)
    assert len(named) > 8 and {*named} <= {*MODULES}
    assert f"API {'.'.join(map(str, API_VERSION))}:" in page
    assert f"`RLCORE_API = {API_VERSION}`" in page


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from rlcore.contracts.specs import Episode", [("rlcore.contracts.specs", "Episode")]),
        ("import rlcore.contracts.specs", [("rlcore.contracts.specs", "")]),
        ("from rlcore.config import schema_tree as t\nt.walk(x)",
         [("rlcore.config.schema_tree", "walk")]),
        ("from rlcore import hookimpl", [("rlcore", "hookimpl")]),
        ("def f():\n    from rlcore.training import train\n    train.run()",
         [("rlcore.training.train", "run")]),
        ("from rlcore_testing import toy_env\nimport numpy", []),
    ],
)  # fmt: skip
def test_the_reader_of_imports(source, expected):
    assert list(imported(source)) == expected


@pytest.mark.parametrize(
    ("module", "name", "public"),
    [
        ("rlcore.contracts.specs", "Episode", True),
        ("rlcore.contracts.specs", "no_such_name", False),
        ("rlcore.files.atomic", "write_text", True),
        ("rlcore.files.atomic", "sweep", False),  # the module offers others only
        ("rlcore.training.train", "train", False),
    ],
)
def test_what_is_public(module, name, public):
    assert is_public(module, name) == public


if __name__ == "__main__":
    SIGNATURES.write_text(signatures())
