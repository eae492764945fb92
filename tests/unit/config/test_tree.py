"""The schema as a tree: dotted paths."""

from __future__ import annotations

from rlcore.config import tree


def test_what_stands_at_a_dotted_path_of_mappings():
    values = {"a": {"b": {"c": 0}, "none": None}}
    assert tree.find(values, "a.b.c") == 0 and tree.find(values, "a.b") == {"c": 0}
    assert tree.find(values, "a.none", "else") is None
    for path in ("x", "a.x", "a.b.c.d", "a.none.x"):
        assert tree.find(values, path) is None and tree.find(values, path, "else") == "else"
