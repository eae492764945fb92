"""Every shipped recipe, and every installed combination, composes and passes the checks."""

from __future__ import annotations

import pytest

from rlcore.config.catalog import Catalog
from rlcore.config.checks import check
from rlcore.config.compose import compose
from rlcore.config.old_names import ConfigWarning
from rlcore.config.schema import RunConfig
from rlcore.placement import Inventory, Node, make_plan
from rlcore.plugins import load_plugins

pytestmark = pytest.mark.filterwarnings("ignore::rlcore.config.old_names.ConfigWarning")

EIGHT_GPUS = Inventory.uniform(1, Node(cpus=96, gpus=8))
CATALOG = Catalog(load_plugins())


def checked(*overrides: str) -> RunConfig:
    config = compose(overrides)
    check(config, plan=make_plan(config.cluster, EIGHT_GPUS))
    return config


@pytest.mark.parametrize("name", CATALOG.options("experiment"))
def test_recipes_compose_and_pass_the_checks(name):
    assert checked(f"experiment={name}").runner.logger.experiment_name == name


@pytest.mark.parametrize("env", CATALOG.options("env"))
@pytest.mark.parametrize("model", CATALOG.options("model"))
def test_any_installed_env_and_model_compose(env, model):
    config = compose([f"env={env}", f"model={model}"], require=("env", "model"))
    assert config.env.train.env_type in load_plugins().names("env")
    assert config.actor.model.model_type in load_plugins().names("model")


@pytest.mark.parametrize("algorithm", CATALOG.options("algorithm"))
@pytest.mark.parametrize("model", [name for name in CATALOG.options("model") if "tiny" in name])
def test_a_recipe_runs_with_another_model_and_algorithm(model, algorithm):
    config = checked("experiment=quickstart", f"model={model}", f"algorithm={algorithm}")
    assert config.actor.model.add_value_head == (algorithm == "ppo")
    assert config.actor.model.num_action_chunks == 10  # means the same to all models


@pytest.mark.filterwarnings("default::rlcore.config.old_names.ConfigWarning")
def test_what_a_recipe_says_to_another_algorithm_is_left_out_and_said():
    """gamma is every algorithm's, but grpo declares it anew: 1 there. update_epoch is 4 to both.
    The command line has the last word."""
    with pytest.warns(ConfigWarning) as said:
        config = compose(["experiment=quickstart", "algorithm=grpo", "algorithm.group_size=4"])
    assert [str(warning.message) for warning in said] == [
        "experiment=quickstart is for ppo: what it sets of algorithm.gamma, "
        "algorithm.critic_warmup_updates is left out for grpo"
    ]
    algorithm = config.algorithm
    assert (algorithm.gamma, algorithm.update_epoch, algorithm.group_size) == (1.0, 4, 4)
    assert compose(["experiment=quickstart", "algorithm=ppo"]).algorithm.gamma == 0.97


# Hyper-parameters of the published runs.


def test_pi0_on_fifty_tasks():
    config = checked("experiment=metaworld_50_ppo_openpi")
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
    config = checked("experiment=metaworld_50_ppo_openpi_pi05")
    assert (config.actor.optim.lr, config.actor.optim.lr_scheduler) == (5e-6, "cosine")
    openpi = vars(config.actor.model)["openpi"]
    assert (openpi.config_name, openpi.value_after_vlm) == ("pi05_metaworld", True)
    # 64 x 8 episodes x 100 / 5 chunks = 10240 samples = 5 minibatches; x 4 epochs x 1000 updates
    assert config.actor.optim.total_training_steps == 5 * 4 * 1000


def test_held_out_tasks_are_evaluated_on_forty_five():
    config = checked("experiment=metaworld_45_ppo_openpi")
    benchmarks = [vars(side)["benchmark"] for side in (config.env.train, config.env.eval)]
    assert benchmarks == ["ml45_train", "ml45_test"]
    assert config.env.eval.max_episode_steps == 160
