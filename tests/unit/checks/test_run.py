"""All checks together: errors, their order, and warnings."""

from __future__ import annotations

from dataclasses import replace

import pytest
from internals import extras
from rlcore_tools import plugin as TOOLS

from rlcore.checks.facts import gather_facts
from rlcore.checks.run import announce, check
from rlcore.config.warning import ConfigWarning
from rlcore.contracts.errors import CheckpointError, ConfigError, PluginError
from rlcore.runs.env_facts import EnvFacts

PLACEMENT = "cluster.component_placement"


@pytest.mark.parametrize(
    "overrides",
    [
        [],
        ["runner.max_epochs=-1", "runner.max_steps=100"],
        ["runner.max_epochs=-1", "runner.only_eval=true"],
        ["env.train.num_processes=0"],  # in the worker's own process
        ["rollout.forward_batch=null", "cluster.torch_threads=null"],
        ["env.train.video_cfg.num_episodes=0"],  # no video is asked for
        ["collect.episodes_per_task=1"],  # nothing is supervised
        ["actor.optim.adam_beta1=0"],
        ["rollout.pipeline_stage_num=2", f"{PLACEMENT}={{env: 0, rollout: 1-2, actor: 1-2}}"],
        [f"{PLACEMENT}={{env: 0-1, rollout: 1-2, actor: 2-3}}"],  # hybrid
        ["cluster.backend=local", f"{PLACEMENT}={{env: 0, rollout: 0, actor: '2:0-1'}}"],
    ],
)
def test_settings_at_the_edge_of_their_range_pass(facts, problems, overrides):
    batch = "actor.global_batch_size=256"  # 128 x 2 actor ranks
    assert problems(facts(batch, *overrides)) == []


def test_demonstrations_are_checked_where_they_are_read(registry, refused, toy_run, tmp_path):
    (tmp_path / "info.json").write_text("{")
    (tmp_path / "episodes.parquet").touch()  # else the folder is that of a killed run

    def checked(*overrides, collects=False):
        key = "collect.output" if collects else "collect.path"
        config, plan = toy_run(f"{key}={tmp_path}", *overrides)
        return check(config, registry, plan, collects=collects)

    for overrides, collects in (["sft.enabled=true"], False), ([], True):
        with refused(CheckpointError, "info.json", text=False):  # a parser words it
            checked(*overrides, collects=collects)
    checked()
    checked("sft.enabled=true", "runner.only_eval=true")
    checked("sft.enabled=true", f"runner.resume_dir={tmp_path}")  # resuming checks them


def test_all_problems_are_reported_together(registry, refused, toy_run):
    config, plan = toy_run("algorithm.group_size=3", "actor.global_batch_size=300")
    with refused(ConfigError, "algorithm.group_size", "actor.global_batch_size"):
        check(config, registry, plan)


def test_an_unknown_tracker_is_refused_before_anything_starts(registry, refused, toy_run):
    config, _ = toy_run("runner.logger.logger_backends=[tensorbord]")
    with refused(PluginError, "logger_backends", "'tensorbord'", "'tensorboard'", text=False):
        check(config, registry)  # the other problems depend on the machine's cores


@pytest.mark.parametrize("side", ["train", "eval"])
def test_videos_without_a_recorder_are_refused(registry, refused, toy_run, side):
    """The fixture's registry lacks rlcore-tools, which writes the videos."""
    config, plan = toy_run(f"env.{side}.video_cfg.save_video=true")
    key = f"env.{side}.video_cfg.save_video"
    with refused(PluginError, key, extras.install_command(["tools"]), text=False):
        check(config, registry, plan)  # how to install it depends on whether this is a clone
    registry.manager.register(TOOLS)
    check(config, registry, plan)


@pytest.mark.parametrize("size", [None, 0])  # 0: unknown
def test_random_weights_are_announced(facts, size):
    found = facts()
    if size is not None:
        found = replace(found, policy=replace(found.policy, parameters=size))
    with pytest.warns(ConfigWarning, match="random weights"):
        announce(found)


SHARDED = "actor.fsdp_config.sharding_strategy=full_shard"


@pytest.mark.parametrize(
    ("overrides", "setting"),
    [
        (["rollout.sync=broadcast"], "rollout.sync=broadcast"),  # one process acts and learns
        # there is one actor process
        ([SHARDED, f"{PLACEMENT}={{env: 0-1, rollout: 2, actor: 2}}"], "full_shard"),
    ],
)
def test_settings_without_effect_are_announced(facts, overrides, setting):
    with pytest.warns(ConfigWarning, match=setting):
        announce(facts(*overrides))


def test_sharding_in_one_process_is_announced(registry, toy_run):
    config, plan = toy_run(SHARDED)
    local = replace(config, cluster=replace(config.cluster, backend="local"))
    with pytest.warns(ConfigWarning, match="full_shard.*cluster.backend=local"):
        announce(gather_facts(local, registry, plan))


def test_an_untrained_value_head_is_announced_and_its_width_does_not_matter(registry, toy_run):
    """The toy has one value per chunk, which a critic of single actions could not use."""
    config, plan = toy_run(
        "algorithm.compare=true",
        "algorithm.group_size=2",
        "algorithm.reward_type=action_level",
        "algorithm.logprob_type=token_level",
        "actor.model.add_value_head=true",
    )
    facts = check(config, registry, plan)
    assert facts.policy.value_dim == 1
    with pytest.warns(ConfigWarning, match="add_value_head=true.*plain"):
        announce(facts)


def test_cameras_that_the_policy_does_not_read_are_announced(facts):
    found = facts()
    train = found.envs["train"]
    side = replace(train.cameras[0], name="side")
    envs = {**found.envs, "train": replace(train, cameras=(*train.cameras, side))}
    with pytest.warns(ConfigWarning, match="1 of 2.*top.*side"):
        announce(replace(found, envs=envs, policy=replace(found.policy, num_images=1)))


def test_an_evaluation_with_other_render_settings_is_announced(facts):
    found = facts()
    settings = {
        "train": {"fast_render": True, "gl": "train", "samples": 1},
        "eval": {"fast_render": False, "gl": "eval"},
    }
    envs = {
        side: replace(spec, render_settings=settings[side]) for side, spec in found.envs.items()
    }
    with pytest.warns(ConfigWarning) as recorded:
        announce(replace(found, envs=envs))
    messages = [str(warning.message) for warning in recorded]
    assert [text.split()[0] for text in messages if "pixels" in text] == ["fast_render", "gl"]


def test_other_render_settings_than_those_of_the_checkpoint_are_announced(facts):
    found = facts()
    train = replace(found.envs["train"], render_settings={"fast_render": True})
    rendered = {"fast_render": False, "assets": "own"}
    trained = replace(EnvFacts.from_spec(train), render_settings=rendered)
    envs = {**found.envs, "train": train}
    with pytest.warns(ConfigWarning, match="fast_render.*False.*actor.model.model_path"):
        announce(replace(found, envs=envs, trained_in=trained))


def test_ranges_are_checked_before_the_components_see_the_values(registry, refused, toy_run):
    config, plan = toy_run("env.train.tasks=[nowhere]", "runner.seed=-1")
    with refused(ConfigError, "runner.seed", "-1"):
        check(config, registry, plan)
