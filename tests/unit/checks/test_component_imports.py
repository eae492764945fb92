"""Components are imported in another process, which may end."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlcore.checks.component_imports import import_rows
from rlcore.contracts.component import ComponentSpec
from rlcore.plugins.registry import Component

MODULES = {
    "fine": "print('noise')\nvalue = 1",
    "lacks": "import a_module_that_nobody_has",
    "refuses": "raise ImportError('pyarrow requires NumPy 2.0')",
    "dies": "import os\nos._exit(3)",
    "exits": "import sys\nsys.exit('needs another driver')",
    "raises": "1 / 0",
    "hangs": "import time\ntime.sleep(60)",
}


@pytest.fixture
def component(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """`component(module)`: one whose target is in that module."""
    for name, source in MODULES.items():
        (tmp_path / f"acme_{name}.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(module: str, **more: object) -> Component:
        spec = ComponentSpec("dataset", module, f"acme_{module}:value", **more)  # type: ignore[arg-type]
        return Component(spec, "acme", "acme-arm", "1.0")

    return make


def test_each_that_fails_is_named_and_the_others_are_tried(component, capfd):
    """One that ends the process does not keep those after it from being imported."""
    names = ("refuses", "dies", "fine", "lacks")
    rows = {row["name"]: row for row in import_rows([component(name) for name in names])}
    assert rows.keys() == {"dataset refuses", "dataset dies", "dataset lacks"}
    assert {row["status"] for row in rows.values()} == {"missing"}
    assert "pyarrow requires NumPy 2.0" in rows["dataset refuses"]["detail"]
    assert "exit code 3" in rows["dataset dies"]["detail"]
    assert "a_module_that_nobody_has" in rows["dataset lacks"]["detail"]
    assert all("acme-arm" in row["fix"] for row in rows.values())
    assert capfd.readouterr().out == ""


def test_a_row_is_one_line_with_the_cause_and_its_place(component):
    exits, raises = import_rows([component("exits"), component("raises")])
    assert "needs another driver" in exits["detail"] and "acme_exits.py:2" in exits["detail"]
    assert "ZeroDivisionError" in raises["detail"] and "acme_raises.py:1" in raises["detail"]
    assert not any("\n" in row["detail"] for row in (exits, raises))


def test_an_import_that_does_not_end_is_given_up(component):
    (row,) = import_rows([component("hangs"), component("fine")], limit=2.0)
    assert row["name"] == "dataset hangs" and "exit code 1" in row["detail"]


def test_what_lacks_an_optional_package_is_not_imported(component):
    optional = component("lacks", packages=("a-distribution-that-nobody-has",))
    (row,) = import_rows([optional, component("fine")])
    assert (row["status"], row["detail"]) == ("ok", "1 can be imported")


def test_a_process_that_can_not_begin_is_no_success(component, tmp_path):
    """As with a file of the user that hides one of ours."""
    (tmp_path / "rlcore.py").write_text("raise SystemExit(3)")
    (row,) = import_rows([component("fine"), component("lacks")])
    assert row["status"] == "missing" and "exit code 3" in row["detail"]
    assert "acme_fine:value" in row["detail"] and "-c" in row["fix"]
