"""The published recipes: doctor, dry run and the start of a run find the same, and say so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from refused import Started

from rlcore.checks import ready, resources
from rlcore.checks.doctor_rows import Finding
from rlcore.checks.ready import MISSING_INPUTS
from rlcore.cli import doctor, verbs
from rlcore.cli.main import main
from rlcore.files.core_configs import core_configs
from rlcore.placement import Inventory, Node

RECIPES = sorted(path.stem for path in (core_configs() / "experiment").iterdir())
QUICK = (
    *("quickstart", "metaworld_50_ppo_openpi", "libero_10_grpo_openvlaoft"),
    *("maniskill_ppo_openvla", "robotwin_place_empty_cup_grpo_openvlaoft"),
)
Found = Callable[..., list[Finding]]


@pytest.fixture
def found(monkeypatch, nothing_starts: Path) -> Found:
    """`found(*words)`: what a command finds, without starting anything."""
    seen: list[Finding] = []
    find = ready.find_obstacles

    def remember(*arguments: object, **named: object) -> object:
        facts, findings = find(*arguments, **named)
        seen[:] = findings
        return facts, findings

    def run(*words: str) -> list[Finding]:
        seen.clear()
        try:
            ends = main(list(words)) != 0
        except Started:
            ends = False
        ending = [one.error for one in seen if one.error]
        dry = [error for error in ending if not isinstance(error, MISSING_INPUTS)]
        assert ends == bool(dry if "--dry-run" in words else ending)
        return list(seen)

    free = SimpleNamespace(free=2**40)  # others write meanwhile
    monkeypatch.setattr(resources.shutil, "disk_usage", lambda place: free)
    for module in (verbs, ready):
        monkeypatch.setattr(module, "find_obstacles", remember)
    monkeypatch.setattr(doctor, "_kernels", lambda: resources.row("kernels", ""))
    return run


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    "recipe",
    [pytest.param(r, marks=[] if r in QUICK else [pytest.mark.long]) for r in RECIPES],
)
def test_doctor_dry_run_and_start_find_the_same(recipe: str, found: Found, capsys) -> None:
    rows = found("doctor", recipe)
    printed = capsys.readouterr().out
    assert rows and all(str(one) in printed for one in rows)
    assert found("train", recipe, "--dry-run") == rows
    printed = "".join(capsys.readouterr())
    assert all(str(one) in printed or (one.error and one.error.message in printed) for one in rows)
    assert found("train", recipe) == rows
    printed = capsys.readouterr().err
    assert all(one.error.message in printed for one in rows if one.error)
    assert all(f"warning: {one.text}" in printed for one in rows if one.status == "warning")


def test_a_recipe_too_large_for_this_machine_names_rlcore_plan(
    found: Found, monkeypatch, capsys
) -> None:
    """2 P + 16 T bytes for two actors that divide 7.54 G parameters and train 7.50 G of them, and
    2 P for each of two rollouts are 153.9 GiB; four programs take 1.9 more."""
    laptop = Inventory((Node(cpus=2, memory=24 * 2**30),))
    monkeypatch.setattr(Inventory, "local", lambda: laptop)
    found("train", "libero_10_grpo_openvlaoft")
    error = capsys.readouterr().err
    assert "main memory" in error and "155.80 GiB of 24.00 GiB" in error
    assert "rlcore plan experiment=libero_10_grpo_openvlaoft" in error
    assert "Traceback" not in error
