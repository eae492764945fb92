"""Keys that do nothing beside others are announced; at their defaults nothing is said."""

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


def said(*overrides: str) -> list[str]:
    return unread(compose([*TOY, *overrides]))


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["actor.model.lora_rank=8"],
         "actor.model.lora_rank=8 does nothing with actor.model.is_lora=false"),
        (["algorithm=grpo", "actor.optim.value_lr=0.001"],
         "actor.optim.value_lr=0.001 does nothing with actor.model.add_value_head=false"),
        (["sft.control=own_successes"],
         "sft.control=own_successes does nothing with sft.enabled=false"),
        (["runner.keep_best=true", "runner.save_interval=-1"],
         "runner.keep_best=true does nothing with runner.save_interval=-1"),
        (["cluster.backend=local", "cluster.address='10.0.0.1:6379'"],
         "cluster.address=10.0.0.1:6379 does nothing with cluster.backend=local"),
        (["env.train.trials_per_task=3"],
         "env.train.trials_per_task=3 does nothing: training draws from all trials of "
         "env.train.split"),
        (["collect.stride=2"], "collect.stride=2 does nothing with sft.enabled=false"),
        (["sft.enabled=true", "collect.output=/data"],
         "collect.output=/data does nothing: rlcore collect alone writes there"),
        (["env.eval.auto_reset=true"],
         "env.eval.auto_reset=true does nothing: an evaluation plays each start once"),
        (["env.train.fail_how=die"],  # of plugins
         "env.train.fail_how=die does nothing with env.train.fail_at=null"),
        (["env/eval=maniskill", "env.eval.image_size=64", "env.eval.obs_mode=state"],
         "env.eval.image_size=64 does nothing with env.eval.obs_mode=state"),
        (["env/eval=maniskill", "env.eval.rebuild_scene=false", "env.eval.sim_backend=gpu"],
         "env.eval.rebuild_scene=false does nothing with env.eval.sim_backend=gpu"),
        (["algorithm=rft", "actor.global_batch_size=512"],  # by an algorithm
         "actor.global_batch_size=512 does nothing: algorithm.batch_size is the size of its steps"),
        (["model=pi0_tiny", "algorithm=dsrl", "actor.optim.clip_grad=0.5"],  # a whole section
         "actor.optim.clip_grad=0.5 does nothing: the policy is frozen; algorithm.actor_lr, "
         "critic_lr, alpha_lr and actor_optim, critic_optim, alpha_optim are of the networks that "
         "learn"),
        (["model=pi0_tiny", "algorithm=dsrl", "algorithm.alpha_lr=0",
          "algorithm.alpha_optim.clip_grad=1"],
         "algorithm.alpha_optim.clip_grad=1 does nothing with algorithm.alpha_lr=0"),
        (["algorithm=expo", "algorithm.edits=0", "algorithm.edit_optim.adam_eps=0.1"],
         "algorithm.edit_optim.adam_eps=0.1 does nothing with algorithm.edits=0"),
        (["algorithm=grpo", "algorithm.rewards_lower_bound=0.3"],
         "algorithm.rewards_lower_bound=0.3 does nothing with algorithm.filter_rewards=false"),
    ],
)  # fmt: skip
def test_what_is_set_in_vain_is_said(overrides: list[str], sentence: str):
    assert said(*overrides) == [sentence]


@pytest.mark.quick(5)
@pytest.mark.parametrize(
    "overrides",
    [
        [],
        ["actor.model.is_lora=true", "actor.model.lora_rank=8"],
        ["actor.optim.value_lr=0.001"],
        ["sft.enabled=true", "sft.control=demonstrations"],
        ["runner.keep_best=true", "runner.save_interval=2"],
        ["runner.keep_best=true", "runner.keep_last=2"],
        ["cluster.address='10.0.0.1:6379'"],
        ["collect.stride=2", "sft.enabled=true"],
        ["env.train.auto_reset=true", "env.train.max_steps_per_rollout_epoch=40"],
        ["env.train.fail_at=3", "env.train.fail_how=die"],
        ["actor.model.lora_rank=32"],  # as it is by default
    ],
)
def test_what_is_read_is_not(overrides: list[str]):
    assert said(*overrides) == []


def test_collecting_reads_its_keys_whoever_learns_from_it():
    config = compose([*TOY, "collect.stride=2", "collect.output=/data", "sft.lr=0.1"])
    assert unread(config, collects=True) == ["sft.lr=0.1 does nothing with sft.enabled=false"]


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


def test_what_comes_with_a_choice_was_set_by_nobody():
    choice = ["env=toy", "model=openvla_tiny", "algorithm=grpo"]  # the model's file has a critic
    assert unread(compose(choice)) == []
    assert unread(compose([*choice, "actor.model.critic_hidden=[7]"])) == [
        "actor.model.critic_hidden=[7] does nothing with actor.model.add_value_head=false"
    ]


def test_a_recipe_in_a_folder_of_the_user_was_set_by_hand(tmp_path):
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mine.yaml").write_text(
        "# @package _global_\ndefaults: [quickstart]\ncollect: {stride: 2}\nsft: {enabled: false}\n"
    )
    config = compose(["experiment=mine"], config_dirs=[tmp_path])
    assert "collect.stride=2 does nothing with sft.enabled=false" in unread(config)
    shipped = [key.partition("=")[0] for key in unread(config)]
    assert shipped == ["collect.stride"]  # and not what the shipped recipe sets


def test_every_condition_names_a_key_that_there_is():
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


def test_what_was_warned_of_is_not_warned_of_again():
    """`unread` composes the choices alone a second time, which must not repeat the warning."""
    with pytest.warns(ConfigWarning, match=r"algorithm\.gamma"):
        config = compose(["experiment=quickstart_ppo", "algorithm=grpo", "algorithm.group_size=4"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        unread(config)
