"""Settings: what nulls come to, every contradiction refused, every key read."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest
import yaml
from internals import check, compose
from rlcore_model_openpi import plugin
from rlcore_model_openpi.resolved import resolve
from rlcore_model_openpi.settings import OpenPIConfig, OpenPIModelConfig
from rlcore_model_openpi.spec import policy_spec

from rlcore.contracts.errors import ConfigError

PACKAGE = Path(plugin.__file__).parent
OPTIONS = sorted((PACKAGE / "conf" / "model").glob("*.yaml"))


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


def test_what_a_decision_keeps_of_the_prefix():
    """Keys and values of 18 layers of one head of 256: 2 * 18 * 256 = 9216 numbers a token. A
    camera has (224 / 14)^2 = 256 tokens, the prompt 48, or 200 where it holds the state."""
    config = OpenPIModelConfig(openpi=OpenPIConfig(size=None))
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
    assert policy_spec(settings(), other(4, 4)).cache_size == 88 * 256
    assert policy_spec(settings(openpi=first), other(4, 4)).cache_size == 88 * (256 + 64)
    assert policy_spec(settings(openpi=after), other(4, 4)).cache_size == 216 * (256 + 64)
    bare = policy_spec(settings(openpi=after, add_value_head=False), other(4, 4))
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


def other(action: int, state: int, cameras: int = 3):
    from rlcore.contracts.specs import ActionChannel, CameraSpec, EnvSpec, StateChannel

    return EnvSpec(
        "fake", ("t",), ("do it",), range(1), range(1, 2),
        tuple(CameraSpec(f"c{i}", 8, 8) for i in range(cameras)),
        (StateChannel("joints", state),), (ActionChannel("joint_position", action),), 10,
    )  # fmt: skip


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
    ("model", "openpi", "match"),
    [
        ({}, {"config_name": "pi0_metaword"}, "Did you mean 'pi0_metaworld'"),
        ({}, {"size": "huge"}, r"one of tiny, .*small, pi0, pi05; got 'huge'"),
        ({}, {"size": "pi05"}, "size is 'pi05', but config_name 'pi0_metaworld'"),
        ({"num_action_chunks": 11}, {}, "num_action_chunks must be at most 10, .* got 11"),
        ({"num_images_in_input": 2}, {}, r"env 'fake' has 1 camera\(s\): camera0"),
        ({"num_images_in_input": 4}, {}, "must be at most 3, got 4"),
        ({"action_dim": 7}, {}, "action_dim is 7, but actions of env 'fake' have 4"),
        ({}, {"discrete_state_input": True}, "is for π0.5"),
        ({}, {"noise_method": "flow_noise", "noise_anneal": True}, "noise_anneal must be false"),
        ({}, {"noise_params": [0.7, 0.3]}, r"noise_params must be \[start, end, updates\]"),
        ({}, {"noise_logvar_range": [0.2, 0.1]}, r"noise_logvar_range must be"),
        ({}, {"noise_method": "flow_ode", "joint_logprob": True}, "joint_logprob must be false"),
        ({}, {"ignore_last": True, "joint_logprob": True}, "ignore_last must be false"),
        ({}, {"ignore_last": True, "num_steps": 1}, "at least 2 with ignore_last"),
        ({}, {"noise_method": "flow_cps", "num_steps": 1}, "at least 2 with noise_method flow_cps"),
        ({"is_lora": True}, {"train_expert_only": True}, "train_expert_only must be false"),
        ({"lora_path": "adapters"}, {}, "lora_path must be null: .* got 'adapters'"),
        ({}, {"config_name": "pi0_libero"}, "needs a state and actions of at least 7 entries"),
    ],
)
def test_contradictions(env_spec, model, openpi, match):
    with pytest.raises(ConfigError, match=match) as caught:
        policy_spec(settings(openpi=openpi, **model), env_spec)
    assert "actor.model." in str(caught.value)  # which key to change


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("num_action_chunks=0", "num_action_chunks must be at least 1, got 0"),
        ("openpi.action_horizon=0", "openpi.action_horizon must be at least 1, got 0"),
        ("openpi.max_token_len=1", "openpi.max_token_len must be at least 2, got 1"),
        ("openpi.num_steps=0", "openpi.num_steps must be at least 1, got 0"),
        ("openpi.num_images_in_input=4", r"openpi.num_images_in_input must be in \[1, 3\], got 4"),
        ("openpi.noise_method=flow_sd", "Did you mean 'flow_sde'"),
        ("openpi.noise_level=-1.0", "noise_level must be at least 0, got -1.0"),
        ("openpi.noise_params=[0.7,-0.3,9]", "noise_params must be at least 0, got -0.3"),
        ("openpi.noise_logvar_range=[0,1]", "noise_logvar_range must be more than 0, got 0"),
        ("openpi.value_vlm_mode=max_token", "value_vlm_mode must be one of mean_token"),
        ("openpi.value_type=action_levl", "Did you mean 'action_level'"),
        ("lora_rank=0", "lora_rank must be at least 1, got 0"),
    ],
)
def test_values_that_a_key_does_not_take(setting, said):
    """What stands at the key is checked there, before the settings are held against each other."""
    words = ["env=toy", "model=pi0", "algorithm=ppo", f"actor.model.{setting}"]
    with pytest.raises(ConfigError, match=said):
        check(compose(words))


def test_envs_too_wide_for_the_network():
    with pytest.raises(
        ConfigError, match=r"actions of env 'fake' have 9 entries, .* room for 8"
    ) as wide:
        policy_spec(settings(), other(9, 4))
    sizes = "tiny_two_arms or small or pi0"
    assert wide.value.hint == f"set actor.model.openpi.size={sizes}, which have room for 9"
    with pytest.raises(
        ConfigError, match=r"state of env 'fake' has 9 entries, .* room for 8"
    ) as wide:
        policy_spec(settings(), other(4, 9))
    assert f"size={sizes}, which have room for 9" in str(wide.value.hint)
    assert "openpi.config_name=pi05_metaworld" in str(wide.value.hint)
    policy_spec(settings(openpi={"size": "small"}), other(4, 9))  # as it says
    # π0.5 of MetaWorld ignores the state, so its width does not matter
    policy_spec(settings(openpi={"config_name": "pi05_metaworld"}), other(4, 9))
    with pytest.raises(ConfigError, match="is for 14 state and action entries"):
        policy_spec(settings(openpi={"config_name": "pi0_aloha_robotwin", "size": "small"}),
                    other(14, 15))  # fmt: skip


@pytest.mark.parametrize("path", OPTIONS, ids=lambda path: path.stem)
def test_shipped_options_hold_known_keys_and_pass_the_checks(path, env_spec):
    content = yaml.safe_load(path.read_text())
    openpi = OpenPIConfig(**content.pop("openpi"))
    config = replace(OpenPIModelConfig(**content, add_value_head=True), openpi=openpi)
    spec = policy_spec(config, env_spec)
    assert spec.value_dim == 1
    assert config.openpi.config_name.startswith(path.stem.split("_")[0] + "_")


def test_every_key_is_read_and_explained():
    source = "".join(
        path.read_text() for path in PACKAGE.rglob("*.py") if path.name != "settings.py"
    )
    for field in fields(OpenPIConfig):
        assert field.metadata["help"]
        assert f".{field.name}" in source or f'"{field.name}"' in source, field.name


def test_prompts_of_all_sentences_must_fit(env_spec):
    """A prompt is BOS, the sentence and a newline: four tokens are too few for nine words."""
    told = replace(
        env_spec, episode_instructions=("put the kitchen shovel on the gramophone disk",)
    )
    policy_spec(settings(), told)
    with pytest.raises(ConfigError, match=r"max_token_len must be at least .* kitchen shovel"):
        policy_spec(settings(openpi={"max_token_len": 4}), told)
