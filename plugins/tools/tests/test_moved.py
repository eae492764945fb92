"""Plugins that import what core has under another name now: found by file and line, and told."""

from __future__ import annotations

import pytest
from rlcore_tools import moved
from rlcore_tools.cli import check

from rlcore.cli import doctor
from rlcore.cli.main import main
from rlcore.numerics import batch_invariance
from rlcore.plugins.registry import Registry

TABLE = {
    "rlcore.gone_by": "rlcore.contracts.specs",
    "rlcore.contracts.rng:draw": "rlcore.contracts.rng:generator",
    "rlcore.no_more": "",
    "rlcore.old_room.part": "rlcore.contracts.specs",
}
GOOD = """
    from rlcore import hookimpl
    RLCORE_API = (0, 4)

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
        (
            "from rlcore.gone_by.inner import Episode",  # a module with all that is in it
            "rlcore.gone_by, which is rlcore.contracts.specs now",
        ),
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


def test_the_doctor_names_file_and_line_before_anything_fails(install, capsys, monkeypatch):
    monkeypatch.setattr(batch_invariance, "check_kernels", lambda rows: ((), "digest"))
    alone = {"RLCORE_PLUGINS": "acme,rlcore-tools"}
    for command in (doctor, check):
        monkeypatch.setattr(command, "load_plugins", lambda: Registry.load(environ=alone))
    install("acme", "acme_old", GOOD + "\n    def make():\n        import rlcore.gone_by\n")
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    place = "acme_old.py:10 imports rlcore.gone_by, which is rlcore.contracts.specs now"
    assert f"missing  acme_old: {place}" in out and "for its author: rlcore check acme_old" in out
    assert main(["check", "acme_old", "--quick"]) == 1
    assert f"plugin acme_old: {place}\n" in capsys.readouterr().out
