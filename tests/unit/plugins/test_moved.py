"""Plugins that import what core has under another name now: found by file and line, and told."""

from __future__ import annotations

import pytest

from rlcore.cli import doctor
from rlcore.cli.main import main
from rlcore.contracts.errors import PluginError
from rlcore.numerics import batch_invariance
from rlcore.plugins import moved
from rlcore.plugins.import_target import load_target
from rlcore.plugins.registry import Registry

TABLE = {
    "rlcore.gone_by": "rlcore.contracts.specs",
    "rlcore.contracts.rng:draw": "rlcore.contracts.rng:generator",
    "rlcore.no_more": "",
    "rlcore.old_room.part": "rlcore.contracts.specs",
}
GOOD = """
    from rlcore import hookimpl
    RLCORE_API = (0, 3)

    @hookimpl
    def rlcore_components():
        return []
"""


@pytest.fixture(autouse=True)
def table(monkeypatch):
    monkeypatch.setattr(moved, "MOVED", TABLE)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("import rlcore.gone_by", "rlcore.gone_by, which is rlcore.contracts.specs now"),
        ("import rlcore.gone_by as x", "rlcore.gone_by, which is rlcore.contracts.specs now"),
        (
            "from rlcore.gone_by import Episode",
            "rlcore.gone_by, which is rlcore.contracts.specs now",
        ),
        ("from rlcore import gone_by", "rlcore.gone_by, which is rlcore.contracts.specs now"),
        (
            "from rlcore.contracts.rng import draw",
            "rlcore.contracts.rng:draw, which is rlcore.contracts.rng:generator now",
        ),
        ("from rlcore import no_more", "rlcore.no_more, which is gone"),
    ],
)
def test_an_import_by_an_old_name_is_found_wherever_it_stands(tmp_path, monkeypatch, line, said):
    package = tmp_path / "acme_old"
    (package / "nets").mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('nothing is imported')")
    (package / "broken.py").write_text("def f(:")
    (package / "nets" / "big.py").write_text(f"import os\n\ndef f():\n    {line}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert moved.outdated_imports("acme_old.plugin") == [f"nets/big.py:4 imports {said}"]


def test_other_imports_are_not_named(install):
    install(
        "acme", "acme_fine", "from rlcore.contracts.rng import generator\nfrom .gone_by import x\n"
    )
    assert moved.outdated_imports("acme_fine") == []
    assert moved.outdated_imports("there_is_no_such_module") == []


def test_a_plugin_that_fails_by_it_is_bad_with_the_new_name(install):
    install("acme", "acme_old", "import rlcore.gone_by")
    (bad,) = [row for row in Registry.load(environ={}).rows() if row.name == "acme_old"]
    assert bad.reason == (
        "ModuleNotFoundError: No module named 'rlcore.gone_by' "
        "(it is rlcore.contracts.specs now: see Moved in docs/api.md)"
    )


@pytest.mark.parametrize(
    ("line", "module"),
    [
        ("import rlcore.old_room.part", "rlcore.old_room"),  # Python names what it misses first
        ("from rlcore.contracts.rng import draw", "rlcore.contracts.rng"),
    ],
)
def test_where_the_error_names_less_the_doctor_is_named(install, line, module):
    install("acme", "acme_old", line)
    (bad,) = [row for row in Registry.load(environ={}).rows() if row.name == "acme_old"]
    said = f"(names of {module} have moved: rlcore doctor gives the new ones)"
    assert bad.reason.endswith(said)


def test_a_component_that_fails_by_it_is_told_the_new_name(install):
    install("acme", "acme_old", "from rlcore.gone_by import Episode")
    with pytest.raises(
        PluginError, match=r"'rlcore.gone_by' \(it is rlcore.contracts.specs now: see Moved in docs"
    ):
        load_target("acme_old:make")


def test_the_doctor_names_file_and_line_before_anything_fails(install, capsys, monkeypatch):
    monkeypatch.setattr(batch_invariance, "kernels_alone", lambda rows: ((), "digest"))
    alone = {"RLCORE_PLUGINS": "acme"}
    monkeypatch.setattr(doctor, "load_plugins", lambda: Registry.load(environ=alone))
    install("acme", "acme_old", GOOD + "\n    def make():\n        import rlcore.gone_by\n")
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    place = "acme_old.py:10 imports rlcore.gone_by, which is rlcore.contracts.specs now"
    assert f"missing  acme_old: {place}" in out and "pip install --upgrade acme" in out
