"""The published recipes: doctor, dry run and the start of a run find the same, and say so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from refused import Started

from rlcore.checks.ready import OF_THE_USER, Finding
from rlcore.checks.room import row
from rlcore.cli import doctor, verbs
from rlcore.cli.main import main
from rlcore.shipped import core_configs

RECIPES = sorted(path.stem for path in (core_configs() / "experiment").iterdir())
QUICK = (
    *("quickstart", "metaworld_50_ppo_openpi", "libero_10_grpo_openvlaoft"),
    *("maniskill_ppo_openvla", "robotwin_place_empty_cup_grpo_openvlaoft"),
)
Found = Callable[..., list[Finding]]


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch, nothing_starts: Path) -> Found:
    """`found(*words)`: what a command finds, without starting anything."""
    seen: list[Finding] = []
    look = verbs.look

    def remember(*arguments: object, **named: object) -> object:
        facts, findings = look(*arguments, **named)  # type: ignore[arg-type]
        seen[:] = findings
        return facts, findings

    def run(*words: str) -> list[Finding]:
        seen.clear()
        try:
            ends = main(list(words)) != 0
        except Started:
            ends = False
        ending = [one.error for one in seen if one.error]
        dry = [error for error in ending if not isinstance(error, OF_THE_USER)]
        assert ends == bool(dry if "--dry-run" in words else ending)
        return list(seen)

    for module in (verbs, doctor):
        monkeypatch.setattr(module, "look", remember)
    monkeypatch.setattr(doctor, "_kernels", lambda: row("kernels", ""))
    return run


@pytest.mark.parametrize(
    "recipe",
    [pytest.param(r, marks=[] if r in QUICK else [pytest.mark.long]) for r in RECIPES],
)
def test_doctor_dry_run_and_start_find_the_same(
    recipe: str, found: Found, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = found("doctor", recipe)
    said = capsys.readouterr().out
    assert rows and all(str(one) in said for one in rows)
    assert found("train", recipe, "--dry-run") == rows
    said = "".join(capsys.readouterr())
    assert all(str(one) in said or (one.error and one.error.message in said) for one in rows)
    assert found("train", recipe) == rows
    said = capsys.readouterr().err
    assert all(one.error.message in said for one in rows if one.error)
    assert all(f"warning: {one.said}" in said for one in rows if one.status == "warning")
