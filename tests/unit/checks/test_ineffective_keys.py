"""Keys that have no effect beside others are named, unless they have their defaults."""

from __future__ import annotations

import warnings
from dataclasses import replace

import pytest

from rlcore.checks.ineffective_keys import SIDES_OF_ONE, unread
from rlcore.checks.run import announce, check
from rlcore.config import schema_tree
from rlcore.config.catalog import Catalog
from rlcore.config.compose import compose
from rlcore.config.warning import ConfigWarning
from rlcore.plugins.registry import load_plugins

TOY = ["env=toy", "model=toy", "algorithm=ppo"]
ALPHA_CLIP = "algorithm.alpha_optim.clip_grad=1"


def ineffective(*overrides: str) -> list[str]:
    return unread(compose([*TOY, *overrides]))


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        (["actor.model.lora_rank=8"], "actor.model.is_lora=false"),
        (["algorithm=grpo", "actor.optim.value_lr=0.001"], "actor.model.add_value_head=false"),
        (["sft.control=own_successes"], "sft.enabled=false"),
        (["runner.save_interval=-1", "runner.keep_best=true"], "runner.save_interval=-1"),
        (["cluster.backend=local", "cluster.address='10.0.0.1:6379'"], "cluster.backend=local"),
        (["env.train.trials_per_task=3"], "env.train.split"),
        (["collect.stride=2"], "sft.enabled=false"),
        (["sft.enabled=true", "collect.output=/data"], "rlcore collect"),
        (["env.eval.auto_reset=true"], "evaluation"),
        (["env.train.fail_how=die"], "env.train.fail_at=null"),  # of plugins
        (
            ["env/eval=maniskill", "env.eval.obs_mode=state", "env.eval.image_size=64"],
            "env.eval.obs_mode=state",
        ),
        (
            ["env/eval=maniskill", "env.eval.sim_backend=gpu", "env.eval.rebuild_scene=false"],
            "env.eval.sim_backend=gpu",
        ),
        (["algorithm=rft", "actor.global_batch_size=512"], "algorithm.batch_size"),
        # a whole section
        (["model=pi0_tiny", "algorithm=dsrl", "actor.optim.clip_grad=0.5"], "critic_optim"),
        (
            ["model=pi0_tiny", "algorithm=dsrl", "algorithm.alpha_lr=0", ALPHA_CLIP],
            "algorithm.alpha_lr=0",
        ),
        (
            ["algorithm=expo", "algorithm.edits=0", "algorithm.edit_optim.adam_eps=0.1"],
            "algorithm.edits=0",
        ),
        (
            ["algorithm=grpo", "algorithm.rewards_lower_bound=0.3"],
            "algorithm.filter_rewards=false",
        ),
    ],
)
def test_a_key_without_effect_is_named_with_the_reason(overrides: list[str], reason: str, snapshot):
    (sentence,) = ineffective(*overrides)
    assert sentence.startswith(overrides[-1].partition("=")[0]) and reason in sentence
    assert sentence == snapshot


@pytest.mark.quick(5)
@pytest.mark.parametrize(
    "overrides",
    [
        [],
        ["actor.model.is_lora=true", "actor.model.lora_rank=8"],
        ["actor.optim.value_lr=0.001"],
        ["sft.enabled=true", "sft.control=demonstrations", "collect.stride=2"],
        ["runner.keep_best=true", "runner.save_interval=2"],
        ["runner.keep_best=true", "runner.keep_last=2"],
        ["cluster.address='10.0.0.1:6379'"],
        ["env.train.auto_reset=true", "env.train.max_steps_per_rollout_epoch=40"],
        ["env.train.fail_at=3", "env.train.fail_how=die"],
        ["actor.model.lora_rank=32"],  # as it is by default
    ],
)
def test_a_key_that_is_read_is_not_named(overrides: list[str]):
    assert ineffective(*overrides) == []


def test_collecting_reads_its_keys_without_supervised_training():
    config = compose([*TOY, "collect.stride=2", "collect.output=/data", "sft.lr=0.1"])
    (sentence,) = unread(config, collects=True)
    assert sentence.startswith("sft.lr=0.1") and "sft.enabled=false" in sentence


def test_supervised_training_alone_has_no_control():
    config = compose([*TOY, "sft.enabled=true", "sft.control=demonstrations"])
    (sentence,) = unread(config, imitates=True)
    assert sentence.startswith("sft.control=demonstrations does nothing: rlcore sft")
    assert unread(config) == []


def test_an_algorithm_reads_demonstrations_without_supervised_training(registry, toy_run, tmp_path):
    config, plan = toy_run(f"collect.path={tmp_path}")
    facts = check(config, registry, plan)

    def announced(facts):
        with warnings.catch_warnings(record=True) as noted:
            warnings.simplefilter("always")
            announce(facts)
        return any("collect.path" in str(each.message) for each in noted)

    assert facts.needs is not None and announced(facts)
    assert not announced(replace(facts, needs=replace(facts.needs, demonstrations=True)))


def test_keys_that_come_with_a_choice_are_not_named():
    choice = ["env=toy", "model=openvla_tiny", "algorithm=grpo"]  # the model's file has a critic
    assert unread(compose(choice)) == []
    (sentence,) = unread(compose([*choice, "actor.model.critic_hidden=[7]"]))
    assert sentence.startswith("actor.model.critic_hidden=[7]")


def test_keys_of_the_users_recipe_are_named_and_those_of_a_shipped_one_are_not(tmp_path):
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mine.yaml").write_text(
        "# @package _global_\ndefaults: [quickstart]\ncollect: {stride: 2}\nsft: {enabled: false}\n"
    )
    config = compose(["experiment=mine"], config_dirs=[tmp_path])
    assert [sentence.partition("=")[0] for sentence in unread(config)] == ["collect.stride"]


def test_every_condition_names_an_existing_key():
    registry = load_plugins()
    catalog = Catalog(registry)
    conditions = 0
    for group, beside in (("model", "algorithm=ppo"), ("algorithm", "model=toy")):
        for option in catalog.options(group):
            config = compose(["env=toy", beside, f"{group}={option}"], registry=registry)
            assert set(config.algorithm.unused) <= set(schema_tree.paths(config))
            for key in schema_tree.walk(config):
                for when in key.when:
                    beside_it = schema_tree.join(key.path.rpartition(".")[0], when.key)
                    schema_tree.value_of(config, when.key if "." in when.key else beside_it)
                    conditions += 1
    assert conditions > 100
    assert set(SIDES_OF_ONE) <= set(schema_tree.paths(compose(TOY, registry=registry)))


def test_a_warning_is_not_repeated():
    """`unread` composes the choices alone a second time, which must not repeat the warning."""
    with pytest.warns(ConfigWarning, match=r"algorithm\.gamma"):
        config = compose(["experiment=quickstart_ppo", "algorithm=grpo", "algorithm.group_size=4"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        unread(config)
