"""Cross-field checks: each refuses what it should, with the numbers in the sentence."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan

import pytest

from rlcore.config import limits, places
from rlcore.config.checks import CHECKS, announce, check
from rlcore.config.compose import compose
from rlcore.config.facts import Facts, gather_facts
from rlcore.config.old_names import ConfigWarning
from rlcore.config.schema import Range
from rlcore.errors import CheckpointError, ConfigError, PluginError
from rlcore.placement import Inventory, Node, make_plan
from rlcore.specs import AlgorithmNeeds

TOY = ["env=toy", "model=toy", "algorithm=plain"]
SHARED = "cluster.component_placement={env: 0-1, rollout: 2-3, actor: 2-3}"
FOUR_GPUS = Inventory.uniform(1, Node(cpus=16, gpus=4))


@pytest.fixture
def facts(registry):
    """`facts(*overrides)`: of the toy run on 2 env and 2 actor workers of a 4-GPU machine."""

    def make(*overrides: str) -> Facts:
        config = compose([*TOY, SHARED, *overrides], registry=registry)
        return gather_facts(config, registry, make_plan(config.cluster, FOUR_GPUS, registry))

    return make


def problems(facts: Facts) -> list[str]:
    numbers = [*limits.violations(facts.config), *places.violations(facts.config)]
    return numbers + [sentence for each in CHECKS for sentence in each(facts)]


def test_a_good_configuration_passes(facts):
    assert problems(facts("actor.global_batch_size=256")) == []  # 128 x 2 actor ranks


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["runner.seed=-1"], "runner.seed must be at least 0, got -1"),
        (["runner.max_epochs=0"], "runner.max_epochs must be -1 (off) or at least 1, got 0"),
        (["env.train.total_num_envs=0"], "env.train.total_num_envs must be at least 1, got 0"),
        (["algorithm.gamma=1.5"], "algorithm.gamma must be in (0, 1], got 1.5"),
        (["collect.speed=0"], "collect.speed must be in (0, 1], got 0.0"),
        (["runner.max_epochs=-1"],
         "runner.max_epochs or runner.max_steps must be at least 1, or training never ends, got -1 "
         "and -1"),
        (["sft.enabled=true", "sft.val_fraction=0"], "sft.val_fraction must be more than 0 with"),
        (["sft.val_fraction=1"], "sft.val_fraction must be in [0, 1), got 1.0"),
        (["sft.enabled=true", "collect.episodes_per_task=1"],
         "collect.episodes_per_task must be at least 2 with sft.enabled (one of them validates), "
         "got 1"),
        (["rollout.forward_batch=0"], "rollout.forward_batch must be at least 1, got 0"),
        (["cluster.torch_threads=0"], "cluster.torch_threads must be at least 1, got 0"),
        (["env.train.num_processes=-1"], "env.train.num_processes must be at least 0, got -1"),
        (["env.eval.num_processes=-1"], "env.eval.num_processes must be at least 0, got -1"),
        (["collect.action_noise=-0.1"], "collect.action_noise must be at least 0, got -0.1"),
        (["actor.optim.lr_warmup_steps=-1"], "actor.optim.lr_warmup_steps must be at least 0"),
        (["actor.optim.lr=0"], "actor.optim.lr must be more than 0, got 0.0"),
        (["actor.optim.lr=nan"], "actor.optim.lr must be more than 0, got nan"),
        (["actor.optim.value_lr=-1e-4"], "actor.optim.value_lr must be more than 0, got -0.0001"),
        (["sft.lr=0"], "sft.lr must be more than 0, got 0.0"),
        (["actor.optim.clip_grad=0"], "actor.optim.clip_grad must be more than 0, got 0.0"),
        (["actor.optim.adam_eps=0"], "actor.optim.adam_eps must be more than 0, got 0.0"),
        (["actor.optim.adam_beta1=1"], "actor.optim.adam_beta1 must be in [0, 1), got 1.0"),
        (["actor.optim.adam_beta2=-0.1"], "actor.optim.adam_beta2 must be in [0, 1), got -0.1"),
        (["cluster.timeouts.env=0"], "cluster.timeouts.env must be more than 0, got 0.0"),
        (["cluster.timeouts.stop=-1"], "cluster.timeouts.stop must be more than 0, got -1.0"),
        (["env.eval.video_cfg.fps=0"], "env.eval.video_cfg.fps must be at least 1, got 0"),
        (["env.train.video_cfg.save_video=true", "env.train.video_cfg.num_episodes=0"],
         "env.train.video_cfg.num_episodes must be at least 1 with save_video, got 0"),
        # stages of one env process, for the rollout processes 0 and 1
        (["cluster.component_placement={env: 0, rollout: 1-2, actor: 1-2}"],
         "env processes x rollout.pipeline_stage_num must be at least the number of rollout "
         "processes = 2, got 1 x 1 = 1"),
        # 2 env workers x 2 stages = 4 parts
        (["env.train.total_num_envs=6", "rollout.pipeline_stage_num=2"],
         "env.train.total_num_envs must be divisible by env workers x stages = 2 x 2 = 4, got 6"),
        # not equal to (260 % 4) % 2 = 0, which lets 4 x 3 pass
        (["env.eval.total_num_envs=260", "rollout.pipeline_stage_num=3"],
         "env.eval.total_num_envs must be divisible by env workers x stages = 2 x 3 = 6, got 260"),
        (["env.train.max_steps_per_rollout_epoch=40"],
         "env.train.max_steps_per_rollout_epoch must be 20 (max_episode_steps) without "
         "auto_reset, got 40"),
        (["env.train.max_steps_per_rollout_epoch=10"], "must be at least max_episode_steps = 20"),
        (["env.train.auto_reset=true", "env.train.max_steps_per_rollout_epoch=41"],
         "must be divisible by actor.model.num_action_chunks = 2, got 41"),
        (["actor.model.num_action_chunks=21"],
         "num_action_chunks must be at most env.train.max_episode_steps = 20, got 21"),
        (["env.eval.trials_per_task=1001"],
         "env.eval.trials_per_task must be at most 1000 (the heldout trials of toy), got 1001"),
        (["env.eval.rollout_epoch=2"], "env.eval.rollout_epoch must be 1"),
        (["actor.model.add_value_head=false"],
         "actor.model.add_value_head must be true: plain needs values, got false"),
        (["algorithm.compare=true"], "algorithm.group_size must be at least 2: plain compares"),
        (["algorithm.group_size=3"],
         "env.train.total_num_envs x rollout_epoch = 8 must be divisible by algorithm.group_size, "
         "got 3"),
        (["algorithm.reward_type=action_level"],
         "algorithm.reward_type=action_level and logprob_type=chunk_level must go together with"),
        (["algorithm.reward_type=action_level", "algorithm.logprob_type=action_level"],
         "a value per action: the model's value_type=action_level"),
        (["actor.global_batch_size=300"],
         "actor.global_batch_size must be divisible by micro_batch_size x actor ranks = 128 x 2 = "
         "256, got 300"),
        (["actor.optim.lr_scheduler=cosine"],
         "actor.optim.total_training_steps must be more than lr_warmup_steps = 0 for "
         "lr_scheduler=cosine, got None"),
        (["actor.fsdp_config.gradient_checkpointing=true"],
         "gradient_checkpointing must be false: toy can't recompute activations"),
        (["cluster.component_placement={env: 0, rollout: 0, actor: '1,2:1-2'}"],
         "cluster.component_placement.actor must give each process a GPU of its own, got GPU 2 for "
         "processes 1, 2"),
        (["cluster.component_placement={env: 0, rollout: 0-2, actor: 0}"],
         "must be at least the number of rollout processes = 3, got 1 x 1 = 1"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(facts, overrides, sentence):
    assert any(sentence in said for said in problems(facts(*overrides)))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda f: replace(f, policy=replace(f.policy, action_dim=7)),
         "actor.model.action_dim must be 2, the action entries of toy, got 7"),
        (lambda f: replace(f, policy=replace(f.policy, evaluation_only="its actions are fixed")),
         "runner.only_eval must be true: its actions are fixed, got false"),
        (lambda f: replace(f, policy=replace(f.policy, num_images=2)),
         "num_images_in_input must be at most 1, the cameras of toy (top), got 2"),
        (lambda f: replace(f, policy=replace(f.policy, state_dim=1)),
         "the state of toy must have at most 1 entries for toy, got 2"),
        (lambda f: replace(f, policy=replace(f.policy, action_horizon=1)),
         "num_action_chunks must be at most 1, the actions toy predicts, got 2"),
        (lambda f: replace(f, envs={**f.envs, "eval": replace(f.envs["eval"], states=())}),
         "env.train and env.eval must have the same state entries, got 2 and 0"),
        (lambda f: replace(f, envs={**f.envs, "eval": replace(f.envs["eval"], cameras=())}),
         "env.train and env.eval must have the same cameras, got ['top'] and []"),
        (lambda f: replace(
            f, envs={**f.envs, "eval": replace(f.envs["eval"], heldout_trials=range(999, 1001))}),
         "train and held-out trials of toy (env.eval) must be disjoint"),
    ],
)  # fmt: skip
def test_parts_that_do_not_fit_each_other_are_refused(facts, change, sentence):
    assert any(sentence in said for said in problems(change(facts())))


@pytest.mark.parametrize(
    "overrides",
    [
        ["runner.max_epochs=-1", "runner.max_steps=100"],
        ["runner.max_epochs=-1", "runner.only_eval=true"],
        ["env.train.num_processes=0"],  # in the worker's own process
        ["rollout.forward_batch=null", "cluster.torch_threads=null"],
        ["env.train.video_cfg.num_episodes=0"],  # no video is asked for
        ["collect.episodes_per_task=1"],  # nothing is supervised
        ["actor.optim.adam_beta1=0"],
        ["rollout.pipeline_stage_num=2",
         "cluster.component_placement={env: 0, rollout: 1-2, actor: 1-2}"],
        ["cluster.component_placement={env: 0-1, rollout: 1-2, actor: 2-3}"],  # hybrid
        ["cluster.backend=local",
         "cluster.component_placement={env: 0, rollout: 0, actor: '2:0-1'}"],
    ],
)  # fmt: skip
def test_the_edges_of_what_is_allowed(facts, overrides):
    assert problems(facts("actor.global_batch_size=256", *overrides)) == []


@pytest.mark.parametrize(
    ("needs", "auto_reset", "refused"),
    [
        (AlgorithmNeeds(values=True, bootstrap_values=True), False, True),
        (AlgorithmNeeds(values=True), True, True),  # a column is cut in the midst of an episode
        (AlgorithmNeeds(values=True), False, False),
        (AlgorithmNeeds(), True, False),
    ],
)
def test_bootstrapping_needs_final_frames(facts, needs, auto_reset, refused):
    found = facts(f"env.train.auto_reset={auto_reset}", "actor.global_batch_size=256")
    found = replace(found, needs=needs)
    assert problems(found) == []
    train = replace(found.envs["train"], renders_final=False)
    said = problems(replace(found, envs={**found.envs, "train": train}))
    assert [s.split(":")[0] for s in said] == (
        ["env.train.render_final must be true"] if refused else []
    )


def test_an_evaluation_asks_nothing_of_the_algorithm(facts):
    overrides = ("actor.model.add_value_head=false", "actor.global_batch_size=256")
    assert any("plain needs values" in said for said in problems(facts(*overrides)))
    assert problems(facts(*overrides, "runner.only_eval=true")) == []


def test_supervised_training_needs_a_teacher_and_a_loss(facts):
    found = facts("sft.enabled=true")
    assert problems(found) == []
    train = replace(found.envs["train"], has_expert=False)
    untaught = replace(found, envs={**found.envs, "train": train})
    assert any("collect.path must name a data set" in said for said in problems(untaught))
    lossless = replace(found, policy=replace(found.policy, sft=None))
    assert any("toy has no supervised loss" in said for said in problems(lossless))


def test_demonstrations_are_judged_where_they_are_read(registry, tmp_path):
    (tmp_path / "info.json").write_text("{")

    def checked(*overrides, collects=False):
        config = compose([*TOY, SHARED, f"collect.path={tmp_path}", *overrides], registry=registry)
        plan = make_plan(config.cluster, FOUR_GPUS, registry)
        return check(config, registry, plan, collects=collects)

    for overrides, collects in (["sft.enabled=true"], False), ([], True):
        with pytest.raises(CheckpointError, match=r"info\.json"):
            checked(*overrides, collects=collects)
    checked()
    checked("sft.enabled=true", "runner.only_eval=true")
    checked("sft.enabled=true", f"runner.resume_dir={tmp_path}")  # what it needs, find() looks at


def test_all_problems_are_told_at_once(registry):
    overrides = ["algorithm.group_size=3", "actor.global_batch_size=300", SHARED]
    config = compose([*TOY, *overrides], registry=registry)
    with pytest.raises(ConfigError) as caught:
        check(config, registry, make_plan(config.cluster, FOUR_GPUS, registry))
    assert len(caught.value.message.splitlines()) == 2


def test_an_unknown_tracker_is_refused_before_anything_starts(registry):
    config = compose([*TOY, "runner.logger.logger_backends=[tensorbord]"], registry=registry)
    with pytest.raises(PluginError, match=r"no tracker 'tensorbord'.*Did you mean 'tensorboard'"):
        check(config, registry)


def test_random_weights_are_announced(registry):
    with pytest.warns(ConfigWarning, match="starts from random weights"):
        config = compose([*TOY, SHARED], registry=registry)
        announce(check(config, registry, make_plan(config.cluster, FOUR_GPUS, registry)))


def test_a_value_head_that_nobody_trains_is_announced_and_its_width_does_not_matter(registry):
    """The toy has a value per chunk; per action it would not fit, if anybody looked at it."""
    words = [
        "algorithm.compare=true",
        "algorithm.group_size=2",
        "algorithm.reward_type=action_level",
        "actor.model.add_value_head=true",
    ]
    words += ["algorithm.logprob_type=token_level"]
    config = compose([*TOY, SHARED, *words], registry=registry)
    facts = check(config, registry, make_plan(config.cluster, FOUR_GPUS, registry))
    assert facts.policy.value_dim == 1
    with pytest.warns(ConfigWarning, match="add_value_head=true: plain trains no critic"):
        announce(facts)


def test_numbers_are_judged_before_the_components_see_them(registry):
    config = compose(
        [*TOY, SHARED, "env.train.tasks=[nowhere]", "runner.seed=-1"], registry=registry
    )
    with pytest.raises(ConfigError, match=r"runner\.seed must be at least 0, got -1"):
        check(config, registry, make_plan(config.cluster, FOUR_GPUS, registry))


@pytest.mark.parametrize(
    ("range", "within", "outside", "text"),
    [
        (Range(), [-3, 0.5, 10], [nan, inf, -inf], "a finite number"),
        (Range(least=1), [1, 2], [0, -1, nan, inf], "at least 1"),
        (Range(above=0), [1e-9], [0, -1, nan], "more than 0"),
        (Range(most=1), [1, -5], [1.1, nan], "at most 1"),
        (Range(below=1), [0.9], [1, nan], "less than 1"),
        (Range(least=0, below=1), [0, 0.5], [1, -0.1], "in [0, 1)"),
        (Range(above=0, most=1), [1], [0], "in (0, 1]"),
        (Range(least=1, off=-1), [-1, 1], [0, -2], "-1 (off) or at least 1"),
    ],
)  # fmt: skip
def test_a_range_knows_its_numbers_and_its_words(range, within, outside, text):
    assert all(value in range for value in within)
    assert not any(value in range for value in outside)
    assert str(range) == text


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("runner.logger.log_path=/dev/null/x", "runner.logger.log_path must be a folder, got"),
        ("collect.path=/dev/null", "collect.path must be a folder, got '/dev/null'"),
        ("runner.logger.experiment_name=../x", "must be a name or a path below"),
        ("actor.model.model_path=/no/where", "must be a folder that exists, got '/no/where'"),
    ],
)
def test_places_that_no_run_can_be_at(registry, override, sentence):
    config = compose([*TOY, override], registry=registry)
    (said,) = places.violations(config)
    assert sentence in said


def test_a_policy_is_told_of_the_sentences_of_all_envs_it_acts_in(registry):
    """The train env has one task, evaluation another; a third env says what only it knows."""
    sides = ["env.train.tasks=[reach-left]", "env.eval.tasks=[reach-right]"]
    config = compose([*TOY, *sides], registry=registry)
    found = gather_facts(config, registry)
    train, test = (found.envs[side].descriptions for side in ("train", "eval"))
    assert train != test and found.policy_env.said == (*train, *test)
    third = replace(found.envs["eval"], sentences=("put it down", *test))
    told = gather_facts(config, registry, further=[third]).policy_env
    assert told == replace(found.envs["train"], sentences=(*train, *test, "put it down"))
