"""Values of JSON and YAML against the types that their readers expect."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from rlcore.files.reading import UnreadableError
from rlcore.files.typed import as_type


@dataclass(frozen=True)
class Run:
    folder: str
    seed: int | None = None


@dataclass(frozen=True)
class Note:
    number: int
    state: Literal["done", "failed"]
    rate: float = 0.0
    runs: tuple[Run, ...] = ()
    process: tuple[int, float] = (0, 0.0)
    values: dict[str, float] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)
    more: Any = None


def test_a_dataclass_is_made_of_a_mapping():
    value = {
        "number": 1, "state": "done", "rate": 2, "runs": [{"folder": "a", "seed": 3}],
        "process": [4, 5], "values": {"x": 0.5}, "words": ["a"], "more": [object],
    }  # fmt: skip
    made = as_type(Note, value)
    assert made == Note(1, "done", 2, (Run("a", 3),), (4, 5), {"x": 0.5}, ["a"], [object])
    assert as_type(Note, {"number": 0, "state": "failed"}) == Note(0, "failed")
    assert as_type(int | str | None, None) is None
    assert as_type(dict[str, list[int]], {"a": [1]}) == {"a": [1]}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"number": "1"}, "number must be a whole number, got '1'"),
        ({"number": 1.0}, "number must be a whole number, got 1.0"),
        ({"number": True}, "number must be a whole number, got True"),
        ({"number": ...}, "it lacks 'number'"),
        ({"other": 1}, "it has the unknown key 'other'"),
        ({"state": "gone"}, "state must be done or failed, got 'gone'"),
        ({"state": []}, "state must be done or failed, got []"),
        ({"rate": "0.5"}, "rate must be a number, got '0.5'"),
        ({"rate": False}, "rate must be a number, got False"),
        ({"runs": {}}, "runs must be a list, each entry a mapping of names to values, got {}"),
        ({"runs": [5]}, "runs[0] must be a mapping of names to values, got 5"),
        ({"runs": [{}]}, "runs[0] lacks 'folder'"),
        ({"runs": [{"folder": "a", "seed": "1"}]},
         "runs[0].seed must be a whole number or null, got '1'"),
        ({"process": [1]}, "process must be a list of 2: a whole number, a number, got [1]"),
        ({"process": [1, None]}, "process[1] must be a number, got None"),
        ({"values": [1]}, "values must be a mapping of names to values, got [1]"),
        ({"values": {"x": []}}, "values.x must be a number, got []"),
        ({"values": {3: 1.0}}, "values must be a mapping of names to values, got {3: 1.0}"),
        ({"words": "abc"}, "words must be a list, each entry a text, got 'abc'"),
        ({"words": ["x" * 200]}, None),
        ({"words": [["x" * 200]]}, "words[0] must be a text, got " + repr(["x" * 200])[:60]),
    ],
)  # fmt: skip
def test_a_wrong_type_is_named_with_its_key_and_value(changes, said):
    whole = {"number": 1, "state": "done", **changes}
    value = {name: each for name, each in whole.items() if each is not ...}
    if said is None:
        as_type(Note, value)
        return
    with pytest.raises(UnreadableError) as caught:
        as_type(Note, value)
    assert str(caught.value) == said


@pytest.mark.parametrize("value", [None, [], "x", 5, [("number", 1)]])
def test_a_file_that_holds_no_mapping(value):
    with pytest.raises(UnreadableError, match=r"^it must be a mapping of names to values, got"):
        as_type(Note, value)
