"""`rlcore eval ... protocol=maniskill_ood` on stand-ins, from the command to the table."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import rlcore_env_maniskill.protocol as published
from rlcore_env_maniskill.tasks import MAIN, SUITES, VARIANTS

from rlcore.cli.main import main
from rlcore.runs.tables import read_results

pytestmark = pytest.mark.usefixtures("vulkan")

# A policy that has learned nothing, for as few steps as tell that a row was played.
WORDS = [
    "env=maniskill_put_on_plate_in_scene_25_main",
    "model=toy",
    "algorithm=ppo",
    "cluster.backend=local",
    "cluster.component_placement={env: 0, rollout: 0, actor: 0}",
    "env.eval.num_processes=0",
    "env.eval.total_num_envs=1",
    "env.eval.trials_per_task=1",
    "env.train.image_size=32",  # what the policy is made for
    "env.eval.image_size=32",
    "env.train.stand_ins=true",
    "env.eval.stand_ins=true",
]
COLUMNS = ["IND", "Vision", "Semantic", "Execution", "Average of OOD"]


def table(logs: Path) -> dict[str, dict]:
    """The rows of the table that the command wrote, by label."""
    assert main(["eval", *WORDS, f"runner.logger.log_path={logs}", "protocol=maniskill_ood"]) == 0
    (file,) = logs.glob("*/eval/maniskill_ood.json")
    return {row["label"]: row for row in json.loads(file.read_text())["rows"]}


def shorten(monkeypatch: pytest.MonkeyPatch, *kept: str) -> None:
    """The protocol with eight steps a row, and of its rows only `kept`."""
    groups = {
        group: {task: {**rows[task], "max_episode_steps": 8} for task in rows if task in kept}
        for group, rows in published.OOD.groups.items()
    }
    groups = {group: rows for group, rows in groups.items() if rows}
    sums = {"averages": {}, "totals": {"Average of OOD": tuple(groups)}, "published": ()}
    monkeypatch.setattr(published, "OOD", replace(published.OOD, groups=groups, **sums))


@pytest.mark.long
def test_two_rows_are_played_and_averaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    moved = "PutOnPlateInScene25PositionChangeTo-v1"
    shorten(monkeypatch, MAIN, moved)
    rows = table(tmp_path)
    for task in (MAIN, moved):
        (file,) = tmp_path.glob(f"*/eval/maniskill_ood/{task}.parquet")
        (result,) = read_results(file)
        assert (result.task, result.length, result.success) == (task, 8, False)
        assert rows[task]["rate"] == 0.0 and rows[task]["lo"] <= 0.0 < rows[task]["hi"]
    printed = capsys.readouterr().out
    assert all(word in printed for word in ("IND", "Execution", "Average of OOD"))


@pytest.mark.long
def test_every_cell_of_the_table_is_filled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = [row for rows in published.OOD.groups.values() for row in rows]
    shorten(monkeypatch, *settings)
    rows = table(tmp_path)
    assert len(settings) == 16 and set(rows) >= {MAIN, *VARIANTS, *settings}
    assert all(0.0 <= row["rate"] <= 1.0 for row in rows.values())
    assert {suite.capitalize() for suite in SUITES} <= set(rows)
    printed = capsys.readouterr().out
    assert all(column in printed for column in COLUMNS)
