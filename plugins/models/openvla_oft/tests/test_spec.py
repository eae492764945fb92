"""Settings against the env and each other, and the facts of the policy."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from internals import check, compose
from rlcore_model_openvla_oft.policy import RegressionPolicy, make
from rlcore_model_openvla_oft.settings import OpenVLAOFTConfig
from rlcore_model_openvla_oft.spec import policy_spec

from rlcore.contracts.errors import ConfigError
from rlcore.contracts.rng import RowKeys
from rlcore.placement import Inventory, Node, make_plan
from rlcore.plugins.registry import load_plugins

KEYS = RowKeys(tuple((1, row) for row in range(3)))
RUN = ["env=metaworld_50", "model=openvla_oft", "algorithm=ppo"]


def settings(**changes) -> OpenVLAOFTConfig:
    return OpenVLAOFTConfig(
        **{"size": "tiny", "num_action_chunks": 2, "critic_hidden": [8], **changes}
    )


def official(**changes) -> OpenVLAOFTConfig:
    return settings(implement_version="official", **changes)


def test_facts_of_the_published_model(env_spec):
    """7.541 B and a critic; the trained ones without each tower's last block, norm and pool."""
    config = OpenVLAOFTConfig(add_value_head=True, num_action_chunks=8)
    spec = policy_spec(config, env_spec)
    critic = 4096 * 512 + 512 + 512 * 128 + 128 + 128
    # one block of DINOv2 and its norm; one of SigLIP, its norm and its pool
    dino = 12 * 1024**2 + 15 * 1024 + 2 * 1024
    siglip_mlp = 2 * 1152 * 4304 + 4304 + 1152
    siglip = 4 * 1152**2 + 8 * 1152 + siglip_mlp + 2 * 1152
    pool = 1152 + 4 * 1152**2 + 6 * 1152 + siglip_mlp
    assert spec.parameters == 7_541_237_184 + critic
    assert spec.parameters - spec.trainable_parameters == dino + siglip + pool
    assert (spec.action_horizon, spec.value_dim, spec.sft_objective) == (
        8,
        1,
        "token_cross_entropy",
    )
    assert spec.has_checkpointing and not spec.evaluation_only


def test_counts_are_those_of_the_policy(env_spec):
    for config in (
        settings(add_value_head=True, is_lora=True, lora_rank=4),
        official(use_proprio=True, proprio_dim=4, use_film=True, is_lora=True, lora_rank=2),
        official(use_l1_regression=True),
    ):
        policy = make(config, env_spec=env_spec)
        parameters = list(policy.parameters())
        assert policy.spec.parameters == sum(p.numel() for p in parameters)
        trained = sum(p.numel() for p in parameters if p.requires_grad)
        assert policy.spec.trainable_parameters == trained


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"size": "openvla_8b"}, ["size", "openvla_7b"]),
        ({"num_images_in_input": 2}, ["num_images_in_input", "1..1", "'fake'", "camera0"]),
        ({"num_images_in_input": 0}, ["num_images_in_input", "1..1"]),
        ({"action_dim": 7}, ["7 entries", "'fake'", "actor.model.action_entries=[0, 1, 2, 6]"]),
        ({"action_entries": [0, 1, 2]}, ["3 entries", "'fake'"]),
        ({"action_entries": [0, 1, 2, 2]}, ["action_entries"]),
        ({"action_dim": 4, "action_entries": [0, 1, 2, 6]}, ["action_entries", "below 4"]),
        ({"use_proprio": True}, ["use_proprio", "implement_version", "rlinf"]),
        ({"use_film": True, "use_l1_regression": True}, ["use_film", "use_l1_regression"]),
        ({"implement_version": "official", "use_proprio": True}, ["proprio_dim", "4", "'fake'"]),
        ({"save_adapters_only": True}, ["save_adapters_only", "is_lora"]),
        ({"save_adapters_only": True, "is_lora": True}, ["save_adapters_only", "model_path"]),
    ],
)
def test_settings_that_do_not_fit_are_refused(env_spec, refused, changes, words):
    with refused(ConfigError, *words):
        policy_spec(settings(**changes), env_spec)


def test_keys_of_a_critic_mean_nothing_without_one(env_spec):
    keys = {"value_type": "action_level", "critic_elapsed": True, "detach_critic_input": True}
    assert policy_spec(settings(**keys), env_spec) == policy_spec(settings(), env_spec)


# -- in a run -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def registry():
    return load_plugins()


def plan(registry, *overrides: str) -> None:
    """Check a run on a machine of eight large GPUs."""
    config = compose([*RUN, *overrides], registry=registry)
    gpus = Inventory.uniform(1, Node(cpus=64, gpus=8))
    check(config, registry, make_plan(config.cluster, gpus, registry))


def test_the_published_model_is_planned(registry):
    plan(registry)
    checkpointing = "actor.fsdp_config.gradient_checkpointing=true"
    plan(registry, "actor.model.is_lora=true", checkpointing)


def test_the_l1_head_is_for_evaluation(registry, refused):
    l1 = ["actor.model.implement_version=official", "actor.model.use_l1_regression=true"]
    with refused(ConfigError, "runner.only_eval", "actor.model.use_l1_regression"):
        plan(registry, *l1)
    plan(registry, *l1, "runner.only_eval=true")


def test_a_policy_with_an_l1_head(env_spec, observe, tmp_path, refused):
    """Its actions are the head's, un-normalised; after a round trip too."""
    torch.manual_seed(0)
    config = official(use_l1_regression=True, add_value_head=True)
    policy = make(config, env_spec=env_spec)
    assert isinstance(policy, RegressionPolicy)
    inputs = policy.prepare(observe(env_spec, 3))
    output = policy.act(inputs, KEYS, deterministic=True)
    normalized = output.replay["normalized_actions"].double().numpy()
    expected = policy.processor.scaling.action.unnormalize(normalized).astype("float32")
    assert output.actions.tobytes() == expected.tobytes() and output.values.shape == (3, 1)
    assert output.actions.shape == (3, 2, 4) and not output.logprobs.any()
    policy.save_pretrained(tmp_path)
    assert (tmp_path / "action_head--rlcore_checkpoint.safetensors").is_file()
    other = make(replace(config, model_path=str(tmp_path)), env_spec=env_spec)
    again = other.act(inputs, KEYS, deterministic=True)
    assert again.actions.tobytes() == output.actions.tobytes()
    with refused(ConfigError, "use_l1_regression"):
        policy.act(inputs, KEYS)
    with refused(ConfigError, "use_l1_regression"):
        policy.evaluate({}, {})


def test_prompts_of_all_instructions_must_fit_before_anything_starts(env_spec, refused):
    """Not only of those by which the tasks are known."""
    long = replace(
        env_spec, episode_instructions=("put the kitchen shovel on the gramophone disk, please",)
    )
    policy_spec(settings(), long)
    with refused(ConfigError, "max_prompt_length", "kitchen shovel"):
        policy_spec(settings(max_prompt_length=4), long)
