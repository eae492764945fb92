"""Which of several policies is kept, by success on the same validation starts."""

from __future__ import annotations

import json

import pytest

from rlcore.runs.kept import Choice, from_json, to_json


def starts(*successes: int, of: int = 100, passes: int = 2) -> dict[tuple[str, int], list[bool]]:
    """`of` starts in as many passes as there are numbers; pass i succeeds from the first ones."""
    return {
        ("reach", trial): [trial < count for count in successes[:passes]] for trial in range(of)
    }


@pytest.mark.parametrize(
    ("rates", "kept"),
    [
        # 100 starts, two passes each, from which policies succeed alike as far as they go
        ([(50, 50)], [True]),
        ([(50, 50), (50, 50)], [True, True]),  # equal: the later one
        ([(50, 50), (60, 60)], [True, True]),  # a new best
        # 4 starts fewer: the interval is about [-0.082, 0.003]
        ([(50, 50), (46, 46)], [True, True]),
        # 30 starts fewer: about [-0.39, -0.21]
        ([(50, 50), (20, 20)], [True, False]),
        # the best is not replaced by what is kept: 42 is not below 46, but below 50
        ([(50, 50), (46, 46), (42, 42), (20, 20)], [True, True, False, False]),
        ([(20, 20), (50, 50), (20, 20), (50, 50)], [True, True, False, True]),
    ],
)
def test_the_latest_that_is_not_below_the_best_is_kept(
    rates: list[tuple[int, int]], kept: list[bool]
) -> None:
    choice = Choice()
    assert [choice.keeps(starts(*counts)) for counts in rates] == kept


def test_the_best_is_the_first_of_equals() -> None:
    choice = Choice()
    first = starts(50, 40)
    choice.keeps(first)
    choice.keeps(starts(40, 50))
    assert choice.best == first


def test_other_starts_begin_a_new_choice() -> None:
    """As after a resume with another `env.validation.trials_per_task`."""
    choice = Choice(starts(90, 90))
    assert choice.keeps(starts(5, 5, of=50))
    assert choice.best == starts(5, 5, of=50)
    assert choice.keeps(starts(1, passes=1))  # nor can other numbers of passes be paired


def test_a_choice_survives_a_checkpoint() -> None:
    played = starts(3, 4, of=5)
    assert from_json(json.loads(json.dumps(to_json(played)))) == played
    assert from_json(to_json(None)) is None
