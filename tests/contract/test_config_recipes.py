"""Every shipped recipe, and every installed combination, composes and passes the checks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import yaml
from internals import check, compose, to_yaml

from rlcore.checks import instruction_warnings as words
from rlcore.checks import places
from rlcore.checks.facts import env_spec
from rlcore.cli.main import main
from rlcore.config import instructions
from rlcore.config.catalog import Catalog
from rlcore.config.differences import differences
from rlcore.config.schema import RunConfig
from rlcore.config.warning import ConfigWarning
from rlcore.contracts.errors import ConfigError
from rlcore.placement import Inventory, Node, make_plan
from rlcore.plugins.import_target import load_target
from rlcore.plugins.registry import load_plugins

pytestmark = pytest.mark.filterwarnings("ignore::rlcore.config.warning.ConfigWarning")

EIGHT_GPUS = Inventory.uniform(1, Node(cpus=96, gpus=8))
CATALOG = Catalog(load_plugins())
# An env that is another one with one key changed, many times over, is tried as that one.
ENVS = [
    name
    for name in CATALOG.options("env")
    if not name.startswith("robotwin_") or name == "robotwin_adjust_bottle"
]
ONE_EACH = "cluster.component_placement={env: 0, rollout: 0, actor: 0}"


GIVEN = {"gymnasium": ["env.train.id=CartPole-v1", "env.train.success=return:40"]}
"""Keys that an env leaves to whoever runs it."""


def checked(*overrides: str) -> RunConfig:
    config = compose(overrides)
    check(config, plan=make_plan(config.cluster, EIGHT_GPUS))
    return config


@cache
def recipe(name: str, *overrides: str) -> RunConfig:
    return checked(f"experiment={name}", *overrides)


@pytest.mark.quick(6)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if number % 3 == 0 else [pytest.mark.long])
        for number, name in enumerate(CATALOG.options("experiment"))
    ],
)
def test_recipes_compose_pass_the_checks_and_fit_on_eight_gpus(name, capsys):
    """As written, without any change."""
    assert main(["train", name, "cluster.inventory=8x80GB", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"experiment={name} -> ")
    assert "of 79.10 GiB" in said and "TOO MUCH" not in said


# Every sixth pair at once, which is some models of each env and some envs of each model.
PAIRS = [
    pytest.param(env, model, marks=[] if (row + column) % 6 == 0 else [pytest.mark.long])
    for row, env in enumerate(ENVS)
    for column, model in enumerate(CATALOG.options("model"))
]


@pytest.mark.quick(6)
@pytest.mark.parametrize(("env", "model"), PAIRS)
def test_any_installed_env_and_model_compose(env, model):
    words = [f"env={env}", f"model={model}", *GIVEN.get(env, ())]
    config = compose(words, require=("env", "model"))
    assert config.env.train.env_type in load_plugins().names("env")
    assert config.actor.model.model_type in load_plugins().names("model")


TOKENS = ("openvla_tiny", "openvla_oft_tiny")


@pytest.mark.quick(4)
@pytest.mark.parametrize(
    ("env", "model"),
    [
        pytest.param(env, model, marks=[] if (row + column) % 2 == 0 else [pytest.mark.long])
        for row, env in enumerate(ENVS)
        for column, model in enumerate(TOKENS)
    ],
)
def test_a_small_token_model_is_told_the_sentences_of_any_env(env, model):
    """Without its tasks being narrowed: the prompt is as long as the longest sentence asks."""
    one_worker = (
        *GIVEN.get(env, ()),
        ONE_EACH,
        "env.train.total_num_envs=1",
        "env.eval.total_num_envs=1",
    )
    checked(f"env={env}", f"model={model}", "runner.only_eval=true", *one_worker)


@pytest.mark.long
def test_the_prompts_of_shipped_recipes_keep_their_length():
    """32 is what the small models had for all envs, 41 stands in the recipe, 64 is what RoboTwin's
    longer sentences ask for."""
    from rlcore_prismatic.resolved import resolve

    found = {}
    for name in CATALOG.options("experiment"):
        config = recipe(name)
        if config.actor.model.model_type in ("openvla", "openvla_oft") and name.endswith("_tiny"):
            env = env_spec(load_plugins(), "env.train", config.env.train)
            found[name] = resolve(config.actor.model, env).prompt_length
    assert found == {
        "maniskill_put_on_plate_grpo_openvlaoft_tiny": 41,
        "metaworld_grpo_openvlaoft_tiny": 32,
        "metaworld_ppo_openvla_tiny": 32,
        "robotwin_handover_block_grpo_openvlaoft_tiny": 64,
    }


TINY = [name for name in CATALOG.options("model") if "tiny" in name]


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    ("model", "algorithm"),
    [
        pytest.param(model, algorithm, marks=[] if (row + column) % 3 == 0 else [pytest.mark.long])
        for row, model in enumerate(TINY)
        for column, algorithm in enumerate(CATALOG.options("algorithm"))
    ],
)
def test_a_recipe_runs_with_another_model_and_algorithm(model, algorithm):
    words = ("experiment=quickstart_ppo", f"model={model}", f"algorithm={algorithm}")
    if algorithm.startswith("dsrl") and not model.startswith("pi0"):
        with pytest.raises(ConfigError, match="the noise it starts from"):
            checked(*words)
        return
    config = checked(*words)
    assert config.actor.model.add_value_head == (algorithm == "ppo")
    assert config.actor.model.num_action_chunks == 10  # means the same to all models


@pytest.mark.filterwarnings("default::rlcore.config.warning.ConfigWarning")
def test_what_a_recipe_says_to_another_algorithm_is_left_out_and_said():
    """gamma is every algorithm's, but grpo declares it anew: 1 there. update_epoch is 4 to both.
    The command line has the last word."""
    with pytest.warns(ConfigWarning) as said:
        config = compose(["experiment=quickstart_ppo", "algorithm=grpo", "algorithm.group_size=4"])
    assert [str(warning.message) for warning in said] == [
        "experiment=quickstart_ppo is for ppo; grpo does not use its settings algorithm.gamma, "
        "algorithm.critic_warmup_updates"
    ]
    algorithm = config.algorithm
    assert (algorithm.gamma, algorithm.update_epoch, algorithm.group_size) == (1.0, 4, 4)
    assert compose(["experiment=quickstart_ppo", "algorithm=ppo"]).algorithm.gamma == 0.97


def test_the_quickstart_with_expo_begins_where_the_quickstart_does():
    one, other = (compose([f"experiment={name}"]) for name in ("quickstart", "quickstart_expo"))
    same = ("collect", "sft", "env", "rollout", "cluster")
    assert [vars(one)[key] for key in same] == [vars(other)[key] for key in same]
    assert one.actor.model == other.actor.model
    assert one.runner.max_epochs == other.runner.max_epochs


@pytest.mark.filterwarnings("default::rlcore.config.warning.ConfigWarning")
def test_another_suite_brings_its_own_time_limit_to_a_recipe_and_says_so():
    """480 is RLinf's for libero_10; 220 is how libero_spatial is evaluated. What the suites do not
    differ in is the recipe's, and the command line has the last word."""
    words = ["experiment=libero_10_ppo_openpi", "env=libero_spatial"]
    with pytest.warns(ConfigWarning) as said:
        config = compose([*words, "env.eval.max_episode_steps=240"])
    assert [str(warning.message) for warning in said] == [
        f"libero_spatial has env.{side}.max_episode_steps=220, in place of what "
        "experiment=libero_10_ppo_openpi says for libero_10"
        for side in ("train", "eval")
    ]
    train, evaluated = config.env.train, config.env.eval
    assert (train.suite, train.max_episode_steps, train.settle_steps) == ("libero_spatial", 220, 15)
    assert evaluated.max_episode_steps == 240
    assert compose(words[:1]).env.train.max_episode_steps == 480


@pytest.mark.long
def test_names_that_belong_to_one_component_stay_behind():
    """MetaWorld's tasks are none of the toy env's, and a width of actions goes with the entries
    that one model picks of them; a time limit means the same to all."""
    config = checked("experiment=quickstart_ppo", "env=toy", "model=toy")
    for side in (config.env.train, config.env.eval):
        assert (side.env_type, side.tasks) == ("toy", None)
    assert config.env.train.max_episode_steps == 95
    chosen = checked("experiment=quickstart_ppo", "env=toy", "env.train.tasks=[reach-left]")
    assert (chosen.env.train.tasks, chosen.env.eval.tasks) == (["reach-left"], None)
    other = recipe("metaworld_50_grpo_openvlaoft", "model=pi0_tiny")
    assert other.actor.model.action_dim is None


# Hyper-parameters of the published runs.


def test_pi0_on_fifty_tasks():
    config = recipe("metaworld_50_ppo_openpi")
    env, algorithm, optim = config.env.train, config.algorithm, config.actor.optim
    assert (env.total_num_envs, env.rollout_epoch, env.max_episode_steps) == (64, 8, 100)
    assert (algorithm.gamma, vars(algorithm)["gae_lambda"], algorithm.update_epoch) == (
        0.99,
        0.95,
        4,
    )
    assert (optim.lr, optim.value_lr, optim.adam_beta2, optim.clip_grad) == (1e-5, 1e-4, 0.95, 1.0)
    assert (config.actor.micro_batch_size, config.actor.global_batch_size) == (128, 2048)
    assert config.actor.model.num_action_chunks == 5
    assert config.runner.seed == 42


def test_pi05_differs_in_size_schedule_and_critic():
    config = recipe("metaworld_50_ppo_openpi_pi05")
    assert (config.actor.optim.lr, config.actor.optim.lr_scheduler) == (5e-6, "cosine")
    openpi = vars(config.actor.model)["openpi"]
    assert (openpi.config_name, openpi.value_after_vlm) == ("pi05_metaworld", True)
    # 64 x 8 episodes x 100 / 5 chunks = 10240 samples = 5 minibatches; x 4 epochs x 1000 updates
    assert config.actor.optim.total_training_steps == 5 * 4 * 1000


def test_held_out_tasks_are_evaluated_on_forty_five():
    config = recipe("metaworld_45_ppo_openpi")
    benchmarks = [vars(side)["benchmark"] for side in (config.env.train, config.env.eval)]
    assert benchmarks == ["ml45_train", "ml45_test"]
    assert config.env.eval.max_episode_steps == 160


ROBOTWIN = "RLinf/RLinf-OpenVLAOFT-RoboTwin-SFT-"
CHECKPOINTS = {
    "libero_10_grpo_openpi": "RLinf/RLinf-Pi0-LIBERO-Long-SFT",
    "libero_10_grpo_openpi_pi05": "RLinf/RLinf-Pi05-LIBERO-SFT",
    "libero_10_grpo_openvlaoft": "RLinf/RLinf-OpenVLAOFT-LIBERO-130-Base-Lora",
    "libero_10_ppo_openpi": "RLinf/RLinf-Pi0-LIBERO-Long-SFT",
    "libero_10_ppo_openpi_pi05": "RLinf/RLinf-Pi05-LIBERO-SFT",
    "libero_10_ppo_openvlaoft": "RLinf/RLinf-OpenVLAOFT-LIBERO-130-Base-Lora",
    "maniskill_grpo_openvla": "gen-robot/openvla-7b-rlvla-warmup",
    "maniskill_grpo_openvlaoft": "RLinf/RLinf-OpenVLAOFT-ManiSkill-Base-Main",
    "maniskill_ppo_openpi_pi05": "RLinf/RLinf-Pi05-ManiSkill-25Main-SFT",
    "maniskill_ppo_openvla": "gen-robot/openvla-7b-rlvla-warmup",
    "maniskill_ppo_openvla_8gpu": "gen-robot/openvla-7b-rlvla-warmup",
    "maniskill_ppo_openvlaoft": "RLinf/RLinf-OpenVLAOFT-ManiSkill-Base-Main",
    "metaworld_45_ppo_openpi": "RLinf/RLinf-Pi0-MetaWorld-SFT",
    "metaworld_50_grpo_openvlaoft": "RLinf/RLinf-OpenVLAOFT-MetaWorld-SFT",
    "metaworld_50_ppo_openpi": "RLinf/RLinf-Pi0-MetaWorld-SFT",
    "metaworld_50_ppo_openpi_pi05": "RLinf/RLinf-Pi05-MetaWorld-SFT",
    "robotwin_adjust_bottle_ppo_openpi": "RLinf/RLinf-Pi0-RoboTwin-SFT-adjust_bottle",
    "robotwin_adjust_bottle_ppo_openpi_pi05": "RLinf/RLinf-Pi05-RoboTwin-SFT-adjust_bottle",
    **{
        f"robotwin_{run}_openvlaoft": f"{ROBOTWIN}{run[:-5]}"
        for run in (
            "beat_block_hammer_grpo", "handover_block_grpo", "lift_pot_grpo", "move_can_pot_grpo",
            "pick_dual_bottles_grpo", "place_container_plate_grpo", "place_empty_cup_grpo",
        )
    },
    "robotwin_place_empty_cup_ppo_openvlaoft": f"{ROBOTWIN}place_empty_cup",
}  # fmt: skip
"""What the documents download for each, or where they don't say, RLinf's file of that name."""


@pytest.mark.long
def test_recipes_of_published_runs_name_their_checkpoint():
    """Without which they don't train 7.5 B random weights; the others start from nothing."""
    named = {name: recipe(name).actor.model.model_path for name in CATALOG.options("experiment")}
    assert {name: path for name, path in named.items() if path} == CHECKPOINTS
    for name in CHECKPOINTS:
        (row,) = [row for row in places.findings(recipe(name)) if row["status"] == "missing"]
        assert row["fix"].startswith(f"hf download {CHECKPOINTS[name]} --local-dir ")
        assert not [*places.findings(recipe(name, "actor.model.model_path=null"))]


@pytest.mark.quick(2)
@pytest.mark.parametrize("name", [name for name in CHECKPOINTS if name.startswith("metaworld_")])
def test_recipes_of_published_checkpoints_look_for_their_sentences(name, tmp_path, monkeypatch):
    """Which are not the env's; a file that has those of all fifty tasks serves both sides. It is
    LeRobot's, beside the checkpoint."""
    monkeypatch.setattr(instructions, "find_spec", lambda name: None)  # there may be a LeRobot here
    config = compose([f"experiment={name}"])
    assert config.env.train.sentences == config.env.eval.sentences == "checkpoint"
    assert words.findings(config) == []  # that its checkpoint is not here is said already
    (tmp_path / "policy").mkdir()
    given = f"actor.model.model_path={tmp_path / 'policy'}"
    (row,) = words.findings(compose([f"experiment={name}", given]))
    for place in ("the checkpoint", "beside it", "lerobot", "sentences=FILE", "sentences=own"):
        assert place in row["detail"]
    tasks = load_target("rlcore_env_metaworld.tasks:SENTENCES")
    said = {task: f"Do {task} now" for task in tasks}
    (tmp_path / "metaworld_config.json").write_text(json.dumps({"TASK_DESCRIPTIONS": said}))
    config = compose([f"experiment={name}", given])
    assert words.findings(config) == []
    for side in (config.env.train, config.env.eval):
        spec = env_spec(load_plugins(), "env.train", side)
        assert spec.all_instructions == tuple(f"Do {task} now" for task in spec.tasks)
    scratch = compose([f"experiment={name}", "actor.model.model_path=null"])
    assert scratch.env.train.sentences == "own"


FILMED = {
    f"env.{side}.video_cfg": {"save_video": True, "info_on_video": True}
    for side in ("train", "eval")
}
ADAMW = {"adam_beta1": 0.9, "adam_eps": 1e-8, "weight_decay": 0.01}
BETA2 = {"openvla": 0.999, "openvla_oft": 0.999, "openpi": 0.95}

PUBLISHED = {
    "metaworld_50_grpo_openvlaoft": {
        "rollout": {"pipeline_stage_num": 1},
        "env.train": {"total_num_envs": 64, "rollout_epoch": 16, "reward_coef": 5.0},
        "algorithm": {
            "group_size": 8, "reward_type": "action_level", "logprob_type": "token_level",
            "clip_ratio_high": 0.28, "clip_ratio_low": 0.2, "filter_rewards": True,
            "rewards_lower_bound": 0.1, "rewards_upper_bound": 1.0,
        },
        "actor": {"micro_batch_size": 32, "global_batch_size": 12800},
        "actor.optim": {"lr": 2e-5},
        "actor.model": {
            "num_action_chunks": 1, "temperature": 1.6, "unnorm_key": "meta_world_strict",
            "is_lora": False,
            "center_crop": False,
        },
    },
    "maniskill_ppo_openvla": {
        "env.train": {
            "total_num_envs": 128, "auto_reset": True, "max_episode_steps": 80,
            "max_steps_per_rollout_epoch": 160, "tasks": ["PutOnPlateInScene25Main-v3"],
        },
        "rollout": {"pipeline_stage_num": 2},
        "algorithm": {
            "reward_type": "action_level", "logprob_type": "action_level",
            "bootstrap_type": "always", "clip_ratio_high": 0.2, "clip_ratio_low": 0.2,
        },
        "actor": {"micro_batch_size": 80, "global_batch_size": 640},
        "actor.optim": {"lr": 1e-4, "value_lr": 3e-3, "clip_grad": 10.0},
        "actor.model": {
            "is_lora": True, "lora_rank": 32, "temperature": 1.0, "top_k": -1,
            "add_value_head": True, "center_crop": False,
        },
    },
    "maniskill_ppo_openvlaoft": {
        "env.train": {"total_num_envs": 128, "auto_reset": True},
        "rollout": {"pipeline_stage_num": 1},
        "algorithm": {"logprob_type": "token_level", "clip_ratio_high": 0.28},
        "actor": {"micro_batch_size": 40, "global_batch_size": 640},
        "actor.optim": {"lr": 1e-4, "value_lr": 3e-3, "clip_grad": 10.0},
        "actor.model": {
            "model_type": "openvla_oft", "add_value_head": True, "is_lora": True,
            "center_crop": False,
        },
    },
    "maniskill_grpo_openvla": {
        "env.train": {"total_num_envs": 256, "auto_reset": False},
        "algorithm": {"group_size": 8},
        "rollout": {"pipeline_stage_num": 2},
        "actor.optim": {"lr": 1e-5, "clip_grad": 1.0},
        "actor.model": {"top_k": 50, "add_value_head": False, "center_crop": False},
    },
    "maniskill_grpo_openvlaoft": {
        "env.train": {"total_num_envs": 256, "auto_reset": False},
        "algorithm": {"group_size": 8},
        "rollout": {"pipeline_stage_num": 1},
        "actor.optim": {"lr": 1e-4, "clip_grad": 10.0},
        "actor.model": {
            "model_type": "openvla_oft", "top_k": -1, "add_value_head": False,
            "center_crop": False,
        },
    },
    "maniskill_ppo_openpi_pi05": {
        "env.train": {"total_num_envs": 320, "auto_reset": True},
        "algorithm": {"entropy_bonus": 0.005, "update_epoch": 5, "bootstrap_type": "always"},
        "actor": {"global_batch_size": 5120},
        "actor.optim": {"lr": 7.91e-6, "value_lr": 1.55e-4},
        "actor.model.openpi": {
            "noise_method": "flow_noise", "joint_logprob": True, "config_name": "pi05_maniskill",
            "noise_params": [0.16, 0.12, 200.0], "noise_logvar_range": [0.08, 0.16],
            "num_steps": 4, "action_horizon": 8, "value_after_vlm": True,
        },
    },
    "libero_10_grpo_openvlaoft": {
        "env.train": {
            "suite": "libero_10", "total_num_envs": 64, "rollout_epoch": 16,
            "max_episode_steps": 512, "reward_coef": 5.0, "use_rel_reward": True,
            "reset_gripper_open": False, "settle_steps": 15, "gripper": "binary",
            "starts": "all", "image_size": 256,
        },
        "algorithm": {
            "group_size": 8, "reward_type": "action_level", "logprob_type": "token_level",
            "clip_ratio_high": 0.28, "clip_ratio_low": 0.2, "filter_rewards": True,
            "rewards_lower_bound": 0.5, "rewards_upper_bound": 4.5,
        },
        "actor": {"micro_batch_size": 32, "global_batch_size": 16384},
        "actor.optim": {"lr": 2e-5, "clip_grad": 1.0},
        "actor.model": {
            "num_action_chunks": 8, "temperature": 1.6, "unnorm_key": None,
            "center_crop": False, "is_lora": False, "num_images_in_input": 1,
        },
    },
    "libero_10_ppo_openvlaoft": {
        "env.train": {
            "total_num_envs": 64, "auto_reset": True, "max_episode_steps": 512,
            "max_steps_per_rollout_epoch": 4096, "gripper": "binary", "starts": "all",
        },
        "algorithm": {
            "reward_type": "chunk_level", "logprob_type": "token_level",
            "clip_ratio_high": 0.28, "clip_ratio_low": 0.2, "gamma": 0.99, "gae_lambda": 0.95,
        },
        "actor": {"micro_batch_size": 16, "global_batch_size": 1024},
        "actor.optim": {"lr": 5e-6, "value_lr": 3e-3},
        "actor.model": {
            "num_action_chunks": 8, "temperature": 1.0, "top_k": 50, "is_lora": True,
            "lora_rank": 32, "center_crop": False, "unnorm_key": None,
        },
    },
    "libero_10_ppo_openpi": {
        "env.train": {
            "total_num_envs": 64, "rollout_epoch": 8, "max_episode_steps": 480,
            "gripper": "signed", "reset_gripper_open": True, "settle_steps": 15,
        },
        "algorithm": {"update_epoch": 4, "clip_ratio_high": 0.2, "value_clip": 0.2},
        "actor": {"micro_batch_size": 128, "global_batch_size": 2048},
        "actor.optim": {"lr": 5e-6, "value_lr": 1e-4, "clip_grad": 2.0},
        "actor.model": {"num_action_chunks": 10, "num_images_in_input": 2},
        "actor.model.openpi": {
            "config_name": "pi0_libero", "num_steps": 4, "noise_level": 0.5,
            "detach_critic_input": True,
        },
    },
    "libero_10_ppo_openpi_pi05": {
        "env.train": {"max_episode_steps": 480, "rollout_epoch": 8},
        "actor.optim": {"lr": 5e-6, "lr_scheduler": "cosine", "clip_grad": 1.0},
        "actor.model.openpi": {
            "config_name": "pi05_libero", "num_steps": 5, "value_after_vlm": True,
        },
    },
    "robotwin_place_empty_cup_grpo_openvlaoft": {
        **FILMED,
        "env.train": {
            "total_num_envs": 128, "rollout_epoch": 8, "max_episode_steps": 200,
            "reward_coef": 5.0, "use_rel_reward": True, "auto_reset": False, "center_crop": True,
            "setting": "demo_randomized", "enable_offload": True,
        },
        "env.train.task_config": {
            "task_name": "place_empty_cup", "embodiment": ["piper", "piper", 0.6],
        },
        "env.train.task_config.camera": {
            "head_camera_type": "D435", "wrist_camera_type": "D435",
            "collect_head_camera": True, "collect_wrist_camera": False,
        },
        "algorithm": {
            "group_size": 8, "reward_type": "action_level", "logprob_type": "token_level",
            "clip_ratio_high": 0.28, "clip_ratio_low": 0.2, "filter_rewards": True,
            "rewards_lower_bound": 0.5, "rewards_upper_bound": 4.5,
        },
        "actor": {"micro_batch_size": 32, "global_batch_size": 1024},
        "actor.optim": {"lr": 1e-4, "clip_grad": 1.0},
        "actor.model": {
            "implement_version": "official", "action_dim": 14, "use_proprio": True,
            "proprio_dim": 14, "use_film": False, "num_images_in_input": 1,
            "num_action_chunks": 25, "unnorm_key": "place_empty_cup_1k", "is_lora": True,
            "lora_rank": 32, "temperature": 1.6, "center_crop": False, "action_norm": "bounds",
        },
    },
    "robotwin_handover_block_grpo_openvlaoft": {
        **FILMED,
        "env.train": {"max_episode_steps": 400},
        "env.train.task_config": {"task_name": "handover_block"},
        "actor.optim": {"lr": 2e-4},
        "actor.model": {"unnorm_key": "handover_block_1k"},
    },
    "robotwin_place_empty_cup_ppo_openvlaoft": {
        **FILMED,
        "env.train": {"total_num_envs": 128, "auto_reset": True, "reward_coef": 1.0},
        "algorithm": {
            "gamma": 0.99, "gae_lambda": 0.95, "reward_type": "action_level",
            "clip_ratio_high": 0.28, "bootstrap_type": "always",
        },
        "actor": {"micro_batch_size": 16, "global_batch_size": 1024},
        "actor.optim": {"lr": 1e-4, "value_lr": 3e-3, "clip_grad": 10.0},
    },
    "robotwin_adjust_bottle_ppo_openpi": {
        **FILMED,
        "env.train": {
            "total_num_envs": 256, "rollout_epoch": 4, "max_episode_steps": 200,
            "center_crop": False, "setting": "demo_clean", "enable_offload": True,
        },
        "env.train.task_config": {"task_name": "adjust_bottle", "embodiment": ["aloha-agilex"]},
        "env.train.task_config.camera": {"collect_wrist_camera": True},
        "algorithm": {
            "update_epoch": 2, "reward_type": "chunk_level", "logprob_type": "chunk_level",
            "gamma": 0.99, "gae_lambda": 0.95, "clip_ratio_high": 0.2, "value_clip": 0.2,
        },
        "actor": {"micro_batch_size": 32, "global_batch_size": 2048},
        "actor.optim": {"lr": 5.6e-6, "value_lr": 1.1e-4, "clip_grad": 1.0},
        "actor.model": {"num_action_chunks": 50, "action_dim": 14, "add_value_head": True},
        "actor.model.openpi": {
            "config_name": "pi0_aloha_robotwin", "num_steps": 4, "noise_level": 0.5,
            "detach_critic_input": True,
        },
    },
    "robotwin_adjust_bottle_ppo_openpi_pi05": {
        **FILMED,
        "algorithm": {"update_epoch": 5},
        "actor.optim": {"lr": 5e-6, "value_lr": 1e-4},
        "actor.model.openpi": {
            "config_name": "pi05_aloha_robotwin", "num_steps": 5, "noise_level": 0.3,
            "detach_critic_input": True, "value_after_vlm": False,
        },
    },
    "libero_10_grpo_openpi": {
        "env.train": {
            "total_num_envs": 64, "rollout_epoch": 8, "max_episode_steps": 480, "starts": "all",
            "gripper": "signed", "reset_gripper_open": True, "settle_steps": 15,
        },
        "algorithm": {
            "group_size": 8, "update_epoch": 2, "reward_type": "chunk_level",
            "logprob_type": "chunk_level", "clip_ratio_high": 0.2, "filter_rewards": True,
            "rewards_lower_bound": 0.1, "rewards_upper_bound": 0.9,
        },
        "actor": {"micro_batch_size": 128, "global_batch_size": 2048},
        "actor.optim": {"lr": 5e-6, "clip_grad": 2.0},
        "actor.model": {"num_action_chunks": 10, "add_value_head": False},
        "actor.model.openpi": {"config_name": "pi0_libero", "num_steps": 4, "noise_level": 0.5},
    },
    "libero_10_grpo_openpi_pi05": {
        "algorithm": {"group_size": 8, "update_epoch": 4},
        "actor.optim": {"lr": 5e-6, "clip_grad": 1.0},
        "actor.model.openpi": {"config_name": "pi05_libero", "num_steps": 4},
    },
}  # fmt: skip


@pytest.mark.long
def test_the_evaluation_of_liberos_document_is_what_its_words_say():
    """`do_sample`, `temperature: 1.6` and `rollout_epoch=2` stand there without a section. The
    supervised checkpoint is evaluated greedily: `do_sample: False`."""
    words = ["experiment=libero_10_grpo_openvlaoft", "env=libero_130", "rollout_epoch=2"]
    tuned = compose([*words, "do_sample=True", "temperature=1.6"])
    assert (tuned.rollout.eval_deterministic, tuned.rollout.eval_temperature) == (False, 1.6)
    assert (tuned.env.eval.rollout_epoch, tuned.env.train.rollout_epoch) == (2, 16)
    assert compose([*words, "do_sample=False"]).rollout.eval_deterministic


def test_the_placement_of_the_published_runs_is_a_recipe_of_its_own():
    """Which differs from the one that any machine takes in nothing else."""
    name = "maniskill_ppo_openvla"
    anywhere, placed = (checked(f"experiment={name}{end}") for end in ("", "_8gpu"))
    plan = make_plan(placed.cluster, EIGHT_GPUS)
    ranks = {
        component: [rank for process in plan.processes(component) for rank in process.resources]
        for component in ("env", "rollout", "actor")
    }
    assert ranks == {"env": [*range(4)], "rollout": [*range(4, 8)], "actor": [*range(8)]}
    mine, its = (yaml.safe_load(to_yaml(config)) for config in (anywhere, placed))
    changed = differences(mine, its, ignore=("recipe", "runner.logger"))
    assert {each.path.split("component_placement")[0] for each in changed} == {"cluster."}


@pytest.mark.quick(6)
@pytest.mark.parametrize("name", PUBLISHED)
def test_recipes_have_the_published_values(name):
    config = recipe(name)
    for path, wanted in PUBLISHED[name].items():
        section = config
        for part in path.split("."):
            section = vars(section)[part]
        assert {key: vars(section)[key] for key in wanted} == wanted


OLDER = (  # than the others
    "libero_10_ppo_openvlaoft",
    "robotwin_place_empty_cup_grpo_openvlaoft",
    "robotwin_handover_block_grpo_openvlaoft",
)
PI0_ON_METAWORLD = (
    "metaworld_50_ppo_openpi",
    "metaworld_50_ppo_openpi_pi05",
    "metaworld_45_ppo_openpi",
)


@pytest.mark.parametrize("name", [*PUBLISHED, *PI0_ON_METAWORLD])
def test_the_optimizer_of_the_published_runs(name):
    actor = recipe(name).actor
    wanted = {**ADAMW, "adam_beta2": BETA2[actor.model.model_type]}
    if name in OLDER:
        wanted["adam_eps"] = 1e-5
    assert {key: vars(actor.optim)[key] for key in wanted} == wanted


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    ["metaworld_50_grpo_openvlaoft", "maniskill_ppo_openvla", "libero_10_grpo_openvlaoft"],
)
def test_the_script_of_the_seed_documents_takes_them(name):
    """On this machine: 7.5 B parameters are planned, and nothing is loaded."""
    script = Path(__file__).parents[2] / "examples/embodiment/run_embodiment.sh"
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    line = ["bash", str(script), name, "--dry-run", ONE_EACH]
    done = subprocess.run(line, capture_output=True, text=True, env={**os.environ, "PATH": path})
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"experiment={name} -> ")
    assert re.search(r"openvla(_oft)?: 7,\d{3},\d{3},\d{3} parameters in bf16", done.stdout)


def test_any_combination_of_real_size_is_planned(capsys):
    words = ["env=metaworld_50", "model=openvla_oft", "algorithm=grpo", "--dry-run"]
    assert main(["train", *words, ONE_EACH]) == 0
    said = capsys.readouterr().out
    # all but the last blocks, norms and pools of the vision towers, which nothing reads
    assert "openvla_oft: 7,541,237,184 parameters in bf16, 7,498,156,704 trained" in said
    assert "rollout and actor are one process over one set of weights" in said
