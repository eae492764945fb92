"""Versions of installed distributions against what others ask for, in a folder of metadata."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rlcore.checks.installed_versions import version_rows


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """`installed({"NAME VERSION": [requirement, ...]})`: the only distributions that are found."""

    def install(distributions: dict[str, list[str]]) -> None:
        for described, requirements in distributions.items():
            name, version = described.split()
            folder = tmp_path / f"{name}-{version}.dist-info"
            folder.mkdir()
            lines = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}"]
            lines += [f"Requires-Dist: {requirement}" for requirement in requirements]
            (folder / "METADATA").write_text("\n".join(lines) + "\n\ntext: no header\n")

    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    return install


def found(*without: str) -> list[tuple[str, str, str, str]]:
    rows = version_rows(without)
    return [(row["name"], row["status"], row["detail"], row["fix"]) for row in rows]


def test_versions_that_suit_each_other(installed):
    installed({
        "numpy 2.4.6": [],
        "Old_Arm 1.0": ["numpy<2; python_version < '3'", "numpy (>=1.26)", "no requirement at all"],
        "arm 1.0": ["numpy<2; extra == 'legacy'", "absent>=3", "old.arm"],
    })  # fmt: skip
    assert found() == [("versions", "ok", "3 distributions suit each other", "")]


def test_a_version_that_is_excluded_is_a_warning(installed):
    """As openpi-client leaves an environment: numpy 1.26 below what others need."""
    installed({"numpy 1.26.4": [], "tables 1.0": ["numpy>=2,<3"], "arm 1.0": ["numpy>=1.26"]})
    ((name, status, detail, fix),) = found()
    assert (name, status) == ("numpy", "warning")
    assert "1.26.4 is installed" in detail and "tables asks for numpy" in detail
    assert "arm" not in detail  # what it asks for is there
    assert fix in ('pip install "numpy<3,>=1.26,>=2"', 'pip install "numpy<3,>=2,>=1.26"')


def test_two_that_no_version_suits_need_environments_of_their_own(installed):
    installed({"numpy 2.4.6": [], "client 0.1": ["numpy<2.0.0,>=1.22"], "tables 1.0": ["numpy>=2"]})
    ((name, _, detail, fix),) = found()
    assert name == "numpy" and "client asks for numpy" in detail and "tables" not in detail
    assert "client" in fix and "environment of its own" in fix
    # one that is installed alone is not asked
    assert found("Client") == [("versions", "ok", "3 distributions suit each other", "")]


def test_a_version_of_another_form_suits_all(installed):
    installed({"numpy local-build": [], "arm 1.0": ["numpy>=2"]})
    assert [row[1] for row in found()] == ["ok"]
