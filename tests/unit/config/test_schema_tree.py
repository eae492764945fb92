"""The schema as a tree: dotted paths."""

from __future__ import annotations

from rlcore.config import schema_tree
from rlcore.config.compose import compose


def test_find_looks_a_dotted_path_up_in_mappings():
    values = {"a": {"b": {"c": 0}, "none": None}}
    assert schema_tree.find(values, "a.b.c") == 0
    assert schema_tree.find(values, "a.b") == {"c": 0}
    assert schema_tree.find(values, "a.none", "else") is None
    for path in ("x", "a.x", "a.b.c.d", "a.none.x"):
        assert schema_tree.find(values, path) is None
        assert schema_tree.find(values, path, "else") == "else"


def test_keys_that_are_fixed_once_a_run_has_made_updates():
    keys = list(schema_tree.walk(compose(["env=metaworld", "model=pi0_tiny", "algorithm=ppo"])))
    fixed = {key.path: key.fixed for key in keys if not key.section}
    assert sorted(path for path in fixed if fixed[path] == "weights") == [
        "actor.model.is_lora",
        "actor.model.lora_path",
        "actor.model.lora_rank",
        "actor.model.model_path",
        "actor.trainable",
        "rollout.model.lora_path",
        "rollout.model.model_path",
        "sft.enabled",
    ]
    start = {path for path in fixed if fixed[path] == "start"}
    assert {path.partition(".")[0] for path in start} == {"collect", "sft"}
    assert {"collect.speed", "sft.lr"} <= start and fixed["sft.control"] == "no"
    # of the section's own keys, a plugin's too, and not of the sections in it
    assert fixed["actor.model.precision"] == "initial"
    assert fixed["actor.model.openpi.noise_level"] == "no" == fixed["runner.max_epochs"]
