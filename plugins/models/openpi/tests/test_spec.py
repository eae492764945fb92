"""Settings: what nulls come to, every contradiction refused, every key read."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rlcore_model_openpi.resolved import resolve
from rlcore_model_openpi.settings import OpenPIConfig, OpenPIModelConfig
from rlcore_model_openpi.spec import policy_spec

from rlcore.contracts.errors import ConfigError
from rlcore.contracts.specs import ActionChannel, CameraSpec, EnvSpec, StateChannel


def settings(*, openpi: dict | None = None, **model) -> OpenPIModelConfig:
    """Settings of the tiny π0, changed."""
    base = {"size": "tiny", "action_horizon": 10, "train_expert_only": False}
    return OpenPIModelConfig(
        **{"num_action_chunks": 5, "add_value_head": True, **model},
        openpi=OpenPIConfig(**{**base, **(openpi or {})}),
    )


def test_published_sizes(env_spec):
    # π0 3.238 B, of which 315 M in the expert (counted on the published weights); the critic has
    # 1024*512+512 + 512*256+256 + 256*128+128 + 128+1 = 689 153 more.
    config = OpenPIModelConfig(add_value_head=True, openpi=OpenPIConfig(size=None))
    spec = policy_spec(config, env_spec)
    assert spec.parameters == pytest.approx(3.238e9 + 689_153, abs=1e6)
    assert spec.trainable_parameters == pytest.approx(315e6 + 689_153, abs=1e6)
    assert (spec.action_horizon, spec.value_dim, spec.state_dim) == (5, 1, 32)
    config.openpi.config_name = "pi05_libero"
    config.add_value_head = False
    spec = policy_spec(config, other(7, 8))
    assert spec.parameters == pytest.approx(3.353e9, abs=1e6)
    assert spec.trainable_parameters == pytest.approx(430e6, abs=1e6)
    # π0.5 of LIBERO does not read the state
    assert (spec.action_horizon, spec.value_dim, spec.state_dim) == (10, 0, 0)


def test_cache_size_by_hand():
    """Keys and values of 18 layers of one head of 256: 2 * 18 * 256 = 9216 numbers a token. A
    camera has (224 / 14)^2 = 256 tokens, the prompt 48, or 200 where it holds the state."""
    config = OpenPIModelConfig(num_images_in_input=1, openpi=OpenPIConfig(size=None))
    assert policy_spec(config, other(4, 4)).cache_size == (256 + 48) * 9216
    config.num_images_in_input = 2
    assert policy_spec(config, other(4, 4)).cache_size == (512 + 48) * 9216
    state = {"config_name": "pi05_aloha_robotwin", "discrete_state_input": True}
    config = OpenPIModelConfig(num_images_in_input=3, openpi=OpenPIConfig(size=None, **state))
    assert policy_spec(config, other(14, 14)).cache_size == (768 + 200) * 9216


def test_a_critic_of_the_vlm_keeps_its_output():
    """The tiny one has 8 * 8 + 24 = 88 tokens, each with 2 * 2 * 4 * 16 = 256 numbers of keys and
    values, and 64 of output. A critic that reads padding is given 2 masked cameras more: 216."""
    after = {"value_after_vlm": True}
    first = {**after, "value_vlm_mode": "first_token"}
    assert policy_spec(settings(num_images_in_input=1), other(4, 4)).cache_size == 88 * 256
    assert policy_spec(
        settings(num_images_in_input=1, openpi=first), other(4, 4)
    ).cache_size == 88 * (256 + 64)
    assert policy_spec(
        settings(num_images_in_input=1, openpi=after), other(4, 4)
    ).cache_size == 216 * (256 + 64)
    bare = policy_spec(
        settings(num_images_in_input=1, openpi=after, add_value_head=False), other(4, 4)
    )
    assert bare.cache_size == 88 * 256


def test_a_value_per_action(env_spec):
    per_chunk = policy_spec(settings(), env_spec)
    per_action = policy_spec(settings(openpi={"value_type": "action_level"}), env_spec)
    assert (per_chunk.value_dim, per_action.value_dim) == (1, 5)
    # four more outputs of the published critic's last layer, 128 weights and a bias each
    assert per_action.parameters - per_chunk.parameters == 4 * 129


def test_keys_of_a_critic_mean_nothing_without_one(env_spec):
    """So that an algorithm without a critic takes the settings of any model."""
    keys = {"value_after_vlm": True, "value_type": "action_level", "critic_elapsed": True}
    bare = policy_spec(settings(add_value_head=False), env_spec)
    assert policy_spec(settings(add_value_head=False, openpi=keys), env_spec) == bare
    assert bare.value_dim == 0


def other(action: int, state: int) -> EnvSpec:
    """An env with three cameras and these many entries of actions and states."""
    return EnvSpec(
        name="fake",
        tasks=("t",),
        instructions=("do it",),
        train_trials=range(1),
        heldout_trials=range(1, 2),
        cameras=tuple(CameraSpec(f"c{i}", 8, 8) for i in range(3)),
        states=(StateChannel("joints", state),),
        actions=(ActionChannel("joint_position", action),),
        max_episode_steps=10,
    )


def test_nulls_come_from_the_config_name():
    config = settings(openpi={"config_name": "pi05_aloha_robotwin", "action_horizon": None})
    resolved = resolve(config, other(14, 14))
    assert resolved.size.pi05 and resolved.size.action_horizon == 50
    assert resolved.discrete_state and resolved.action_dim == 14
    assert resolved.size.max_token_len == 200  # the prompt holds the state
    config.openpi.discrete_state_input = False
    assert resolve(config, other(14, 14)).size.max_token_len < 200
    config.num_images_in_input = 2
    assert not resolve(config, other(14, 14)).discrete_state
    assert resolve(config, other(14, 14)).num_images == 2
    config.openpi.num_images_in_input = 3  # the key of known recipes wins over the common one
    assert resolve(config, other(14, 14)).num_images == 3


@pytest.mark.parametrize(
    ("model", "openpi", "word"),
    [
        ({}, {"config_name": "pi0_metaword"}, "pi0_metaworld"),
        ({}, {"size": "huge"}, "small, pi0, pi05"),
        ({}, {"size": "pi05"}, "pi0_metaworld"),
        ({"num_action_chunks": 11}, {}, "at most 10"),
        ({"num_images_in_input": 2}, {}, "camera0"),
        ({"num_images_in_input": 4}, {}, "at most 3"),
        ({"action_dim": 7}, {}, "'fake' have 4"),
        ({}, {"discrete_state_input": True}, "π0.5"),
        ({}, {"noise_method": "flow_noise", "noise_anneal": True}, "noise_anneal"),
        ({}, {"noise_params": [0.7, 0.3]}, "[start, end, updates]"),
        ({}, {"noise_logvar_range": [0.2, 0.1]}, "noise_logvar_range"),
        ({}, {"noise_method": "flow_ode", "joint_logprob": True}, "joint_logprob"),
        ({}, {"ignore_last": True, "joint_logprob": True}, "joint_logprob"),
        ({}, {"ignore_last": True, "num_steps": 1}, "num_steps"),
        ({}, {"noise_method": "flow_cps", "num_steps": 1}, "num_steps"),
        ({"is_lora": True}, {"train_expert_only": True}, "is_lora"),
        ({"lora_path": "adapters"}, {}, "'adapters'"),
        ({}, {"config_name": "pi0_libero"}, "7 entries"),
    ],
)
def test_contradictions_are_refused(env_spec, refused, model, openpi, word):
    (key, *_) = [*model, *(f"openpi.{name}" for name in openpi)]
    with refused(ConfigError, key.rpartition(".")[2], word, "actor.model."):
        policy_spec(settings(openpi=openpi, **model), env_spec)


def test_envs_too_wide_for_the_network_are_refused(refused):
    sizes = "actor.model.openpi.size=tiny_two_arms or small or pi0"
    with refused(ConfigError, "'fake'", "9 entries", sizes):
        policy_spec(settings(), other(9, 4))
    with refused(ConfigError, "'fake'", "9 entries", sizes, "openpi.config_name=pi05_metaworld"):
        policy_spec(settings(), other(4, 9))
    policy_spec(settings(openpi={"size": "small"}), other(4, 9))  # as it says
    # π0.5 of MetaWorld ignores the state, so its width does not matter
    policy_spec(settings(openpi={"config_name": "pi05_metaworld"}), other(4, 9))
    aloha = {"config_name": "pi0_aloha_robotwin", "size": "small"}
    with refused(ConfigError, "14"):
        policy_spec(settings(openpi=aloha), other(14, 15))


def test_prompts_of_all_instructions_must_fit(env_spec, refused):
    """A prompt is BOS, the instruction and a newline: four tokens are too few for nine words."""
    long = replace(
        env_spec, episode_instructions=("put the kitchen shovel on the gramophone disk",)
    )
    policy_spec(settings(), long)
    with refused(ConfigError, "max_token_len", "kitchen shovel"):
        policy_spec(settings(openpi={"max_token_len": 4}), long)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, "openpi.noise_level"),
        ({"noise_method": "flow_cps", "noise_anneal": True}, "openpi.noise_params"),
        ({"noise_method": "flow_noise"}, "openpi.noise_logvar_range"),
    ],
)
def test_the_key_that_scales_its_exploration(keys, expected, env_spec):
    assert policy_spec(settings(openpi=keys), env_spec).exploration_key == expected


def test_without_a_checkpoint_all_cameras_that_fit_are_read(other_env):
    """pi0 has three slots of images; the common key and a checkpoint come before the env."""
    for cameras, read in ((1, 1), (2, 2), (3, 3), (4, 3)):
        assert policy_spec(settings(), other_env(cameras=cameras)).num_images == read
    assert policy_spec(settings(num_images_in_input=1), other_env(cameras=2)).num_images == 1
