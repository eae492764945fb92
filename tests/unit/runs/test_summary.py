"""The keys of `summary.json` and the figures under them."""

import json

import pytest

from rlcore.contracts.run import Totals
from rlcore.runs.summary import build_summary, write_summary
from rlcore.runs.tables import EpisodeResult

KEYS = ["success_before", "success_after", "paired_difference", "seed", "seconds"]
KEYS += ["env_steps", "episodes", "versions"]


def results(wins, n=10):
    return [EpisodeResult("push", i, 0, i < wins, 0.0, 5, "deterministic") for i in range(n)]


def summary(groups=None, **sides):
    return build_summary(
        sides,
        groups=groups,
        seed=3,
        seconds={"rollout": 1.23456, "update": 2.0},
        totals=Totals(env_steps=900, episodes=64),
        versions={"rlcore": "1.2"},
    )


def test_keys_and_figures_of_a_summary(tmp_path):
    write_summary(tmp_path / "summary.json", summary(before=results(0), after=results(8)))
    read = json.loads((tmp_path / "summary.json").read_text())
    assert list(read) == [*KEYS, "failures"]
    assert read["failures"] == {"push": [8, 9]}
    # Wilson 8/10 and 0/10, worked in test_statistics
    assert read["success_after"] == {"rate": 0.8, "n": 10, "lo": 0.490162, "hi": 0.943318}
    assert read["success_before"] == {"rate": 0.0, "n": 10, "lo": 0.0, "hi": 0.277533}
    # phi is 0 (nothing succeeded before), so the half-widths add in squares:
    # down = sqrt((0.8 - 0.490162)^2 + (0.277533 - 0)^2) = sqrt(0.0960 + 0.0770245) = 0.415961
    # up   = sqrt((0.943318 - 0.8)^2 + (0 - 0)^2) = 0.143318
    assert read["paired_difference"]["mean"] == 0.8
    assert read["paired_difference"]["lo"] == pytest.approx(0.8 - 0.415961, abs=5e-6)
    assert read["paired_difference"]["hi"] == pytest.approx(0.943318, abs=2e-6)
    assert read["seconds"] == {"rollout": 1.235, "update": 2.0}
    assert (read["seed"], read["env_steps"], read["episodes"]) == (3, 900, 64)
    assert read["versions"] == {"rlcore": "1.2"}


def test_a_missing_evaluation_is_null(tmp_path):
    write_summary(tmp_path / "summary.json", summary(after=results(5)))
    read = json.loads((tmp_path / "summary.json").read_text())
    assert read["success_before"] is None
    assert read["paired_difference"] is None
    assert read["success_after"]["rate"] == 0.5


def test_groups_of_tasks_add_two_keys():
    def side(**wins):
        return [
            EpisodeResult(task, i, 0, i < won, 0.0, 5, "deterministic")
            for task, won in wins.items()
            for i in range(4)
        ]

    groups = {"easy": ("push", "pull"), "hard": ("lift",), "none": ("fly",)}
    after = summary(after=side(push=4, pull=2, lift=1), groups=groups)
    assert list(after) == [*KEYS, "groups", "averages", "failures"]
    # the lowest rate first: 1, 2 and 4 of 4
    assert [*after["failures"].items()] == [("lift", [1, 2, 3]), ("pull", [2, 3])]
    # easy: 6 of 8, hard: 1 of 4; their mean (0.75 + 0.25) / 2; tasks (1 + 0.5 + 0.25) / 3
    assert after["groups"] == {
        "easy": {"before": None, "after": 0.75},
        "hard": {"before": None, "after": 0.25},
    }
    assert after["averages"] == {
        "bucket mean": {"before": None, "after": 0.5},
        "task mean": {"before": None, "after": 0.583333},
    }
    both = summary(
        before=side(push=0, pull=0, lift=1), after=side(push=4, pull=2, lift=1), groups=groups
    )
    assert both["averages"]["bucket mean"] == {"before": 0.125, "after": 0.5}


def test_control_adds_two_keys():
    with_control = summary(before=results(2), after=results(8), control=results(3))
    assert list(with_control) == [*KEYS, "success_control", "control_difference", "failures"]
    assert with_control["success_control"]["rate"] == 0.3
    assert with_control["control_difference"]["mean"] == pytest.approx(0.1)


def test_the_best_checkpoint_stands_beside_the_last():
    found = build_summary(
        {"before": results(2), "after": results(5), "best": results(8)},
        best="step_000004",
        **{"seed": 0, "seconds": {}, "totals": Totals(), "versions": {}},
    )
    assert found["best_checkpoint"] == "step_000004"
    assert found["success_best"]["rate"] == 0.8 and found["success_after"]["rate"] == 0.5
    assert found["best_difference"]["mean"] == pytest.approx(0.6)


def test_forgetting_is_of_other_tasks():
    sides = {"forgetting/before": results(4), "forgetting/after": results(1)}
    found = summary(after=results(5), **sides)["forgetting"]
    assert found["tasks"] == ["push"]
    assert found["success_before"]["rate"] == 0.4 and found["success_after"]["rate"] == 0.1
    assert found["paired_difference"]["mean"] == pytest.approx(-0.3)


def test_sides_must_be_the_same_episodes():
    with pytest.raises(ValueError):
        summary(before=results(2, n=9), after=results(8))
    with pytest.raises(ValueError):
        summary(after=results(2) + results(2))
