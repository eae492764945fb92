"""Rules for the keys of another system's files: which keys they are for."""

from __future__ import annotations

import pytest
from rlcore_tools.import_rules import Foreign, ImportRule

from rlcore.plugins.import_target import load_target
from rlcore.plugins.registry import load_plugins


@pytest.mark.parametrize(
    ("theirs", "path", "star"),
    [
        ("a.b", "a.b", ""),
        ("a.b", "a.c", None),
        ("a.b", "a.b.c", None),
        ("a.b.c", "a.b", None),
        ("env.*.seed", "env.train.seed", "train"),
        ("env.*.seed", "env.seed", None),
        ("hydra.*", "hydra.run.dir", ""),
        ("hydra.*", "hydra", None),
        ("env.*.init.*", "env.eval.init.id.x", "eval"),
    ],
)
def test_which_keys_a_rule_is_for(theirs, path, star):
    assert ImportRule(theirs, None, "").match(path) == star


def test_a_file_of_the_checkout_is_found_above(tmp_path):
    (tmp_path / "a/b/c").mkdir(parents=True)
    (tmp_path / "a/data.json").write_text("{}")
    foreign = Foreign(tmp_path / "a/b/c/file.yaml", {"x.y": 1})
    assert foreign.nearby("data.json") == tmp_path / "a/data.json"
    assert foreign.nearby("other.json") is None
    assert (foreign.get("x.y"), foreign.get("x.z", 2)) == (1, 2)


def test_the_rules_of_all_components_load():
    """And each rule that has a key of ours, or none, says something about it."""
    found = 0
    for kind in ("env", "model", "algorithm"):
        for component in load_plugins().components(kind):
            if component.spec.imports is None:
                continue
            for rule in load_target(component.spec.imports):
                assert isinstance(rule, ImportRule)
                assert rule.theirs or rule.ours, component.spec.name
                assert rule.says, f"{component.spec.name}: {rule.theirs}"
                found += 1
    assert found > 50
