"""Words that errors share."""

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
    assert (
        format_choices(["toy", "robot", *tasks])
        == f"robot, {MAX_LISTED_FAMILY + 1} names robot_..., toy"
    )
    assert format_choices(["robot", *tasks[1:3], "a"]) == "a, robot, robot_01, robot_02"
    assert format_choices(tasks[:2]) == "robot_00, robot_01"  # nothing has that name alone
    assert format_choices([]) == ""


def test_what_was_meant_comes_before_the_choices():
    assert choices_message("x", []) == "; choose from: none."
    assert choices_message("x", ["b", "a"]) == "; choose from: a, b."
    assert choices_message("toi", ["toy", "box"]) == ". Did you mean 'toy'? Choose from: box, toy."
    assert choices_message("hutt", [], also=["hut"]) == ". Did you mean 'hut'? Choose from: none."
    many = [f"part_{number}" for number in range(MAX_LISTED_CHOICES)] + ["other"]
    near = ". Did you mean 'part_7'? There are 9, the nearest: part_6, part_5, part_4."
    assert choices_message("partt", many) == near
    assert choices_message("othr", many) == ". Did you mean 'other'? There are 9."
    assert choices_message("zzz", many) == "; there are 9."


def test_what_several_checks_find_is_one_error():
    def wrong(name: str) -> None:
        raise CheckpointError(f"no {name}", hint=f"get {name}")

    assert run_checks(lambda: 1, lambda: "two") == (1, "two")
    with pytest.raises(CheckpointError) as raised:
        run_checks(lambda: wrong("weights"), lambda: 1, lambda: wrong("tokenizer"))
    assert str(raised.value) == (
        "no weights\n  hint: get weights\nno tokenizer\n  hint: get tokenizer"
    )
    with pytest.raises(CheckpointError, match=r"^no weights\n  hint: get weights$"):
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
    assert join_errors([one]) is one and str(join_errors([one, two])).count("hint") == 1
