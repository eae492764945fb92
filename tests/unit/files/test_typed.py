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
        **{"number": 1, "state": "done", "rate": 2, "runs": [{"folder": "a", "seed": 3}]},
        **{"process": [4, 5], "values": {"x": 0.5}, "words": ["a"], "more": [object]},
    }
    made = as_type(Note, value)
    assert made == Note(1, "done", 2, (Run("a", 3),), (4, 5), {"x": 0.5}, ["a"], [object])
    assert as_type(Note, {"number": 0, "state": "failed"}) == Note(0, "failed")
    assert as_type(int | str | None, None) is None
    assert as_type(dict[str, list[int]], {"a": [1]}) == {"a": [1]}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"number": "1"}, ["number", "'1'"]),
        ({"number": 1.0}, ["number", "1.0"]),
        ({"number": True}, ["number", "True"]),
        ({"number": ...}, ["'number'"]),
        ({"other": 1}, ["'other'"]),
        ({"state": "gone"}, ["state", "done", "failed", "'gone'"]),
        ({"state": []}, ["state", "[]"]),
        ({"rate": "0.5"}, ["rate", "'0.5'"]),
        ({"rate": False}, ["rate", "False"]),
        ({"runs": {}}, ["runs", "{}"]),
        ({"runs": [5]}, ["runs[0]", "5"]),
        ({"runs": [{}]}, ["runs[0]", "'folder'"]),
        ({"runs": [{"folder": "a", "seed": "1"}]}, ["runs[0].seed", "'1'"]),
        ({"process": [1]}, ["process", "2", "[1]"]),
        ({"process": [1, None]}, ["process[1]", "None"]),
        ({"values": [1]}, ["values", "[1]"]),
        ({"values": {"x": []}}, ["values.x", "[]"]),
        ({"values": {3: 1.0}}, ["values", "{3: 1.0}"]),
        ({"words": "abc"}, ["words", "'abc'"]),
        ({"words": [["x" * 200]]}, ["words[0]", repr(["x" * 200])[:60]]),
    ],
    ids=lambda value: None if isinstance(value, dict) else " ".join(value)[:30],
)
def test_a_value_of_another_type_is_refused_with_its_key(snapshot, changes, words):
    whole = {"number": 1, "state": "done", **changes}
    value = {name: entry for name, entry in whole.items() if entry is not ...}
    with pytest.raises(UnreadableError) as error:
        as_type(Note, value)
    assert [word for word in words if word not in str(error.value)] == []
    assert str(error.value) == snapshot


def test_a_text_may_be_long():
    assert as_type(list[str], ["x" * 200]) == ["x" * 200]


@pytest.mark.parametrize("value", [None, [], "x", 5, [("number", 1)]])
def test_a_dataclass_is_not_made_of_another_type(value):
    with pytest.raises(UnreadableError):
        as_type(Note, value)
