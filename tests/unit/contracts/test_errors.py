"""Choices, nearest names and hints of errors."""

from __future__ import annotations

import pytest

from rlcore.contracts.errors import (
    MAX_LISTED_CHOICES,
    MAX_LISTED_FAMILY,
    AssetError,
    CheckpointError,
    ConfigError,
    choices_message,
    format_choices,
    join_errors,
    run_checks,
)


def test_names_are_listed_and_large_families_counted():
    tasks = [f"robot_{number:02}" for number in range(MAX_LISTED_FAMILY + 1)]
    family = f"{MAX_LISTED_FAMILY + 1} names robot_..."
    assert format_choices(["toy", "robot", *tasks]) == f"robot, {family}, toy"
    assert format_choices(["robot", *tasks[1:3], "a"]) == "a, robot, robot_01, robot_02"
    assert format_choices(tasks[:2]) == "robot_00, robot_01"  # nothing has that name alone
    assert format_choices([]) == ""


def test_the_nearest_name_comes_before_the_choices(snapshot):
    many = [f"part_{number}" for number in range(MAX_LISTED_CHOICES)] + ["other"]
    messages = {
        "no choices": choices_message("x", []),
        "no near name": choices_message("x", ["b", "a"]),
        "a near name": choices_message("toi", ["toy", "box"]),
        "near an absent name": choices_message("hutt", [], also=["hut"]),
        "many, near one family": choices_message("partt", many),
        "many, near one": choices_message("othr", many),
        "many, near none": choices_message("zzz", many),
    }
    assert messages == snapshot
    assert "'toy'" in messages["a near name"] and "box, toy" in messages["a near name"]
    assert "'part_7'" in messages["many, near one family"]


def test_errors_of_several_checks_are_one(refused):
    def wrong(name: str) -> None:
        raise CheckpointError(f"no {name}", hint=f"get {name}")

    assert run_checks(lambda: 1, lambda: "two") == (1, "two")
    with refused(CheckpointError, "no weights", "get weights", "no tokenizer", "get tokenizer"):
        run_checks(lambda: wrong("weights"), lambda: 1, lambda: wrong("tokenizer"))
    with refused(CheckpointError, "no weights\n  hint: get weights"):
        run_checks(lambda: 1, lambda: wrong("weights"))
    with pytest.raises(ZeroDivisionError):  # a bug is none of them
        run_checks(lambda: 1 / 0, lambda: wrong("weights"))


def test_errors_with_one_hint_share_it_and_stay_single():
    one, two = (ConfigError(f"{name} must be 1", hint="read the help") for name in "ab")
    other = AssetError("no GL", hint="install it")
    error = join_errors([join_errors([one, two]), other])
    assert type(error) is ConfigError and error.errors == (one, two, other)
    assert str(error) == (
        "a must be 1\nb must be 1\n  hint: read the help\nno GL\n  hint: install it"
    )
    assert join_errors([one, one]) is one  # of env.train and env.eval
    assert join_errors([one]) is one and str(join_errors([one, two])).count("hint") == 1
