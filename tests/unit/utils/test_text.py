"""Values, names and numbers in messages."""

from __future__ import annotations

import pytest

from rlcore.utils.text import (
    abbreviate_list,
    format_ranges,
    format_value,
    shorten,
    strip_control,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        ("a b", "a b"),
        (1e-4, "0.0001"),
        ([None, True, 1e-4, "a"], "[null, true, 0.0001, a]"),
        ({"env": "0-3", "actor": [1, False]}, "{env: 0-3, actor: [1, false]}"),
    ],
)
def test_a_value_is_written_as_it_is_typed(value, text):
    assert format_value(value) == text


def test_a_long_value_is_cut_and_any_object_has_a_text():
    class Stranger:
        def __repr__(self) -> str:
            raise ValueError

    assert shorten("abc") == "'abc'"
    assert shorten("x" * 100, 20) == "'" + "x" * 16 + "..."  # 20 characters
    assert "Stranger object at" in shorten(Stranger(), 200)


def test_a_long_list_is_abbreviated():
    assert abbreviate_list(["a", "b"], 2) == "a, b"
    assert abbreviate_list(["a", "b", "c", "d", "e"], 2) == "a, b and 3 more"


def test_consecutive_numbers_are_ranges():
    assert format_ranges([3, 1, 2, 7, 2]) == "1-3,7"
    assert format_ranges([3, 1, 2, 7], " to ", ", ") == "1 to 3, 7"
    assert format_ranges([]) == ""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[2Kb", r"a\x1b[2Kb"),  # erases a line
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),  # renames the window
        ("ok\rBAD", r"ok\rBAD"),  # writes over the line
        ("\x9b31m\x7f", r"\x9b31m\x7f"),  # the same in one byte; delete
        ("\u202etxt.exe", r"\u202etxt.exe"),  # turns the letters round
        ("\udcff", r"\udcff"),  # a byte of a file's name that is no letter
        ("two\nlines\tµ 机 ─", "two\nlines\tµ 机 ─"),
    ],
)
def test_control_characters_are_escaped(text, shown):
    assert strip_control(text) == shown
