"""Settings against the env and each other, and what the policy is said to hold."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from rlcore_model_openvla_oft.policy import RegressionPolicy, make
from rlcore_model_openvla_oft.settings import OpenVLAOFTConfig
from rlcore_model_openvla_oft.spec import policy_spec

from rlcore.checks.run import check
from rlcore.config.compose import compose
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
    ("changes", "match"),
    [
        ({"size": "openvla_8b"}, "size must be one of .* Did you mean 'openvla_7b'"),
        ({"num_images_in_input": 2},
         r"num_images_in_input must be in 1\.\.1, the cameras of env 'fake' \(camera0\), got 2"),
        ({"num_images_in_input": 0}, r"num_images_in_input must be in 1\.\.1, .* got 0"),
        ({"action_dim": 7}, "7 entries .* executed .* env 'fake' have 4"),
        ({"action_entries": [0, 1, 2]}, "3 entries .* executed .* env 'fake' have 4"),
        ({"action_entries": [0, 1, 2, 2]}, "must be different numbers"),
        ({"action_dim": 4, "action_entries": [0, 1, 2, 6]}, "below 4, the entries"),
        ({"use_proprio": True}, "use_proprio.* must be false with implement_version 'rlinf'"),
        ({"use_film": True, "use_l1_regression": True}, "{use_film, use_l1_regression} must be"),
        ({"implement_version": "official", "use_proprio": True},
         "proprio_dim must be 4, the state entries of env 'fake', got 7"),
        ({"save_adapters_only": True}, "save_adapters_only must be false without is_lora"),
        ({"save_adapters_only": True, "is_lora": True}, "save_adapters_only .* without model_path"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(env_spec, changes, match):
    with pytest.raises(ConfigError, match=match):
        policy_spec(settings(**changes), env_spec)


def test_keys_of_a_critic_mean_nothing_without_one(env_spec):
    keys = {"value_type": "action_level", "critic_elapsed": True, "detach_critic_input": True}
    assert policy_spec(settings(**keys), env_spec) == policy_spec(settings(), env_spec)


def test_entries_to_execute_are_proposed(env_spec):
    with pytest.raises(ConfigError) as refused:
        policy_spec(settings(action_dim=7), env_spec)
    assert "actor.model.action_entries=[0, 1, 2, 6]" in str(refused.value)


def test_a_sentence_that_is_too_long_for_the_prompt(env_spec):
    with pytest.raises(ConfigError, match=r"max_prompt_length must be at least .* got 6"):
        make(settings(max_prompt_length=6), env_spec=env_spec)


# -- in a run -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def registry():
    return load_plugins()


def refusals(registry, *overrides: str) -> str:
    """What is said of a run on a machine of eight large GPUs; empty if it is planned."""
    config = compose([*RUN, *overrides], registry=registry)
    gpus = Inventory.uniform(1, Node(cpus=64, gpus=8))
    try:
        check(config, registry, make_plan(config.cluster, gpus, registry))
    except ConfigError as error:
        return error.message
    return ""


def test_the_published_model_is_planned(registry):
    assert refusals(registry) == ""
    checkpointing = "actor.fsdp_config.gradient_checkpointing=true"
    assert refusals(registry, "actor.model.is_lora=true", checkpointing) == ""


def test_a_chunk_longer_than_an_episode(registry):
    said = refusals(registry, "actor.model.num_action_chunks=400")
    assert "actor.model.num_action_chunks must be at most env.train.max_episode_steps" in said


def test_the_l1_head_is_for_evaluation(registry):
    l1 = ["actor.model.implement_version=official", "actor.model.use_l1_regression=true"]
    assert "runner.only_eval must be true: actor.model.use_l1_regression" in refusals(registry, *l1)
    assert refusals(registry, *l1, "runner.only_eval=true") == ""


def test_a_policy_with_an_l1_head(env_spec, observe, tmp_path):
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
    for refused in (lambda: policy.act(inputs, KEYS), lambda: policy.evaluate({}, {})):
        with pytest.raises(ConfigError, match="without log-probs"):
            refused()


def test_prompts_of_all_sentences_must_fit_before_anything_starts(env_spec):
    """Not only of those by which the tasks are known."""
    told = replace(
        env_spec, episode_instructions=("put the kitchen shovel on the gramophone disk, please",)
    )
    policy_spec(settings(), told)
    with pytest.raises(ConfigError, match=r"(?s)max_prompt_length must be at least .* shovel"):
        policy_spec(settings(max_prompt_length=4), told)
