"""Rules for the keys of another system's files: which keys they are for."""

from __future__ import annotations

import pytest
from rlcore_env_libero.suites import SUITES
from rlcore_env_metaworld.tasks import BENCHMARKS
from rlcore_env_robotwin.arguments import COLLECTION, NOT_OBSERVED, OBSERVED, preset
from rlcore_rlinf.rule import ImportRule, RLinfFile
from rlcore_rlinf.rules import RULES, any_file, libero, metaworld, robotwin, supervised

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
    file = RLinfFile(tmp_path / "a/b/c/file.yaml", {"x.y": 1})
    assert file.nearby("data.json") == tmp_path / "a/data.json"
    assert file.nearby("other.json") is None
    assert (file.get("x.y"), file.get("x.z", 2)) == (1, 2)


@pytest.mark.parametrize("component", [*RULES, None])
def test_each_rule_has_a_key_and_says_something_about_it(component):
    registry = load_plugins()
    if component is not None:
        kind, name = component
        assert name in registry.names(kind)
    shared = (*any_file.RULES, *supervised.RULES)
    for rule in shared if component is None else RULES[component]:
        assert rule.theirs or rule.ours
        assert rule.note, rule.theirs


def test_the_tables_agree_with_the_envs():
    assert {name: len(tasks) for name, tasks in SUITES.items()} == libero.TASKS
    assert {
        theirs: len(BENCHMARKS[ours]) for theirs, ours in metaworld.SUITES.items()
    } == metaworld.TASKS
    assert preset("demo_clean") == robotwin.CLEAN
    kinds = [f"data_type.{name}" for name in (*OBSERVED, *NOT_OBSERVED)]
    keys = {rule.theirs for rule in robotwin.IGNORED}
    assert keys == {f"env.*.task_config.{name}" for name in (*COLLECTION, "render_freq", *kinds)}
