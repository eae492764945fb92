"""The rules of benchmarks/learning.py: experts, time limits, what is played, what a page says."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def parts() -> Iterator[None]:
    """The benchmarks' modules, importable as from their folder."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    yield
    sys.path.remove(str(ROOT / "benchmarks"))


def test_an_expert_counts_by_the_steps_that_suffice_for_95_percent_of_its_starts():
    from parts.learning.sets import Expert

    lengths: list[int | None] = [*range(20, 0, -1)]
    assert Expert.of_lengths(lengths) == Expert(20, 20, 19)  # 19 of 20 starts end by step 19
    assert Expert.of_lengths([None, *lengths[1:]]) == Expert(20, 19, 19)  # step 20 failed instead
    assert Expert.of_lengths([None, None, *lengths[2:]]) == Expert(20, 18, None)  # 90%


def test_a_limit_leaves_the_slowest_expert_two_thirds_more():
    from parts.learning.sets import time_limit

    assert time_limit([40, 42, 62]) == 104  # 103.33 rounded up
    assert time_limit([60]) == 100  # 100 exactly


def test_a_task_without_an_expert_is_replaced_by_the_first_that_nothing_names():
    from parts.learning.sets import Expert, fill, unused

    good, bad = Expert(20, 20, 9), Expert(20, 12, None)
    tasks = ["a-v3", "b-v3", "c-v3", "d-v3", "e-side-v3", "e-v3", "f-v3"]
    texts = ["tasks: [a-v3]", "on e-side, and of a lifted-f"]
    left = list(unused(tasks, texts, taken=["b-v3"]))
    assert left == ["c-v3", "d-v3", "e-v3", "f-v3"]  # e-side does not name e, nor lifted-f f
    experts = {"x": bad, "y": good, "z": bad, "c-v3": bad, "d-v3": good, "e-v3": good}
    assert fill(["x", "y", "z"], experts, iter(left)) == {"x": "d-v3", "z": "e-v3"}


def test_every_set_has_experts():
    from parts.learning.sets import listed, read_experts, time_limit

    sets, experts = read_experts()
    assert sets.keys() == listed()["sets"].keys()
    for name, each in listed()["sets"].items():
        tasks = [sets[name].replaced.get(task, task) for task in each["tasks"]]
        assert tasks == list(sets[name].tasks)
        steps = [experts[task].steps for task in tasks]
        assert None not in steps and sets[name].limit == time_limit(filter(None, steps))
        assert all(experts[task].steps is None for task in sets[name].replaced)


def test_one_arm_has_its_own_successes_imitated():
    from parts.learning.runs import Arm
    from parts.learning.sets import listed

    arms = [Arm(**entries) for entries in listed()["arms"].values()]
    assert sum(arm.control for arm in arms) == 1
    gone = Arm(["algorithm=ppo"]).missing({"algorithm": ["rft"]})
    assert gone == "algorithm ppo is not installed"


def record(commit: str, start: str = "w0", samples: int = 64, **starts: str) -> Any:
    """What is kept of a cell; `a="01 11"` are two starts of task a, two passes each."""
    from parts.learning.cells import Record

    return Record(
        commit=commit,
        ended="2026-01-01T00:00:00",
        start=start,
        starts={task: dict(enumerate(said.split())) for task, said in starts.items()},  # type: ignore[misc]
        protocol="p",
        curve=(),
        episodes=96,
        seconds=10.0,
        samples=samples,
    )


def table_of(tmp_path: Path) -> Any:
    from parts.learning.runs import Arm, Table
    from parts.learning.sets import TaskSet

    arms = {"ppo": Arm(["algorithm=ppo"]), "expo": Arm(["algorithm=expo"], 80, control=True)}
    return Table("presses", TaskSet(["a-v3"], 9), 0, 1, 96, arms, tmp_path / "runs")


def test_what_is_missing_is_played_in_order(tmp_path: Path):
    from parts.learning.cells import DEMONSTRATIONS, OWN_SUCCESSES, START, Records

    records = Records(tmp_path / "cells", "c1")
    table = table_of(tmp_path)
    every = ["ppo", "expo", DEMONSTRATIONS, OWN_SUCCESSES]
    keep = lambda run, **values: records.write(table.cell(run), record("c1", **values))  # noqa: E731
    assert table.next_runs(every, records) == [START]
    keep(START)
    assert table.next_runs(every, records) == [START]  # its weights are on another machine
    summary = table.place(START) / "summary.json"
    summary.parent.mkdir(parents=True)
    summary.touch()
    assert table.next_runs(every, records) == ["ppo", "expo"]
    keep("ppo", samples=100)
    keep("expo", samples=400)
    assert table.next_runs(["ppo", "expo"], records) == ["expo"]  # its control is still missing
    assert table.next_runs(["ppo"], records) == []
    assert table.next_runs([OWN_SUCCESSES], records) == ["expo"]
    keep(OWN_SUCCESSES)
    assert table.next_runs(every, records) == [DEMONSTRATIONS]
    keep(DEMONSTRATIONS, samples=384)  # an arm has done more since
    assert table.next_runs(every, records) == [DEMONSTRATIONS]
    keep(DEMONSTRATIONS, samples=448)
    assert table.next_runs(every, records) == []

    assert table.next_runs(every, Records(tmp_path / "cells", "c2")) == [START]  # other code
    keep(START, start="w1")  # another processor's weights
    assert table.next_runs(every, records) == ["ppo", "expo"]


def test_arms_begin_from_the_start_and_play_whole_updates(tmp_path: Path, refused: Any):
    pytest.importorskip("rlcore_env_metaworld")
    from parts.learning.cells import DEMONSTRATIONS, START, Records
    from parts.learning.sets import TaskSet

    import rlcore
    from rlcore.contracts.errors import ConfigError

    records = Records(tmp_path / "cells", "c1")
    presses = TaskSet(["handle-press-v3"], 104)
    table = replace(table_of(tmp_path), tasks=presses, episodes=192)
    configs = {}
    records.write(table.cell(START), record("c1"))
    records.write(table.cell("expo"), record("c1", samples=130))
    for run in (START, "ppo", "expo", DEMONSTRATIONS):
        verb, *words = table.command(run, records)
        assert verb == ("train" if run in table.arms else "sft")
        configs[run] = rlcore.compose(*words)
    start = table.place(START)
    for run in ("ppo", "expo", DEMONSTRATIONS):
        assert configs[run].actor.model.model_path == str(start / "sft")
        assert configs[run].collect.path == str(start / "demonstrations")
        assert configs[run].env.eval == configs[START].env.eval
    assert configs["expo"].runner.max_epochs == 2  # of 96 episodes
    assert configs["expo"].actor.optim.total_training_steps == 160
    assert configs["expo"].sft.control == "own_successes" and configs["ppo"].sft.control is None
    assert configs["expo"].sft.max_steps == 0 and not configs["expo"].trains_to_plateau
    assert configs[START].trains_to_plateau and not configs[DEMONSTRATIONS].trains_to_plateau
    assert configs[DEMONSTRATIONS].sft.max_steps == 3  # 130 samples, 64 a step
    with refused(ConfigError, "--episodes", "96"):
        replace(table, episodes=100).command("ppo", records)


def sheet_of(tmp_path: Path) -> Any:
    from parts.learning.cells import DEMONSTRATIONS, START, Cell, Records
    from parts.learning.page import Sheet
    from parts.learning.sets import Expert, TaskSet

    records = Records(tmp_path, "c1")
    kept = {
        START: record("c1", a="00 00 00 01"),
        DEMONSTRATIONS: record("c1", a=" ".join(["11"] * 38 + ["00"] * 2)),
        "ppo": record("c1", a=" ".join(["00"] * 38 + ["01"] * 2)),
        "grpo": record("c0", a="11"),
    }
    kept[START] = record("c1", a=" ".join(["00"] * 40))
    for run, values in kept.items():
        episodes = 0 if run == START else 576
        curve = [(96, 24), (96, 48)] if run == "ppo" else []
        cell = Cell("presses", 0, 1, episodes, run)
        records.write(cell, replace(values, curve=curve))
    experts = {"a": Expert(20, 20, 54), "b": Expert(20, 3, None)}
    arms = {"ppo": "", "grpo": "", "sac": "algorithm sac is not installed"}
    tasks = TaskSet(["a"], 90, {"b": "a"})
    return Sheet.of("presses", "chosen on", tasks, experts, arms, records)


def test_a_page_begins_with_where_a_control_wins_and_shows_one_commit(tmp_path: Path):
    from parts.learning.page import page

    text = page(sheet_of(tmp_path))
    first = text.splitlines()[2]
    assert first.startswith("**A control wins** against ppo of seed 0")
    assert "an arm wins against its control in none" in first
    assert "Of the 12 cells of the first table 9 are not run." in first
    assert "All figures are of c1." in text
    rows = {line.split(" | ")[1]: line for line in text.splitlines() if line.startswith("| 0 | ")}
    assert "| 0.950 [" in rows["control-demonstrations"]  # 38 of 40
    assert "| 38 / 2 / 0 | 96 | 64 | 10 |" in rows["ppo"]
    assert "| -0.925 [" in rows["ppo"]  # 2 of 80 passes less 76 of 80
    assert "not run: played by another commit" in rows["grpo"]
    assert "not run: algorithm sac is not installed" in rows["sac"]
    assert "| 1 | start | not run |" in text
    assert "a stands in the place of b, whose expert solves 3 of 20" in text


def test_a_start_that_is_played_once_counts_as_equal_passes():
    from parts.learning.page import difference

    twice, once = record("c1", a="01 11 00 00"), record("c1", a="0 1 1 0")
    assert difference(twice, once).mean == pytest.approx(4 / 8 - 3 / 8)
    assert difference(twice, replace(once, protocol="q")) is None


def test_a_picture_pools_the_seeds(tmp_path: Path):
    pytest.importorskip("rlcore_tools")
    from parts.learning.picture import picture, training

    sheet = sheet_of(tmp_path)
    svg = picture(sheet)
    assert svg is not None and ">ppo</text>" in svg and ">grpo</text>" not in svg
    (ppo,) = [each for cell, each in sheet.cells.items() if cell.run == "ppo"]
    points = training([ppo, replace(ppo, curve=[(96, 72)])])  # the second has made one update
    assert [(point.x, point.y) for point in points] == [(96, 0.5)]  # 24 + 72 of 192
