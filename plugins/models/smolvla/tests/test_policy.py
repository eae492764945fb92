"""Log-probs by formula, gradients by differences, what is trained, and files. The conformance kit
has what holds for every policy."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rlcore_model_smolvla.folder import write_lerobot
from rlcore_model_smolvla.policy import SmolVLAPolicy, make
from rlcore_model_smolvla.settings import SmolVLAConfig, SmolVLAModelConfig
from torch import Tensor

from rlcore.contracts.errors import ConfigError
from rlcore.contracts.rng import RowKeys
from rlcore.contracts.specs import EnvSpec

TINY = {
    "size": "tiny",
    "action_horizon": 6,
    "num_steps": 3,
    "noise_level": 0.7,
    "critic_hidden": [16],
    "train_expert_only": False,
}


def config(is_lora: bool = False, **keys: Any) -> SmolVLAModelConfig:
    return SmolVLAModelConfig(
        num_action_chunks=4,
        num_images_in_input=1,
        add_value_head=True,
        is_lora=is_lora,
        lora_rank=2,
        smolvla=SmolVLAConfig(**(TINY | keys)),
    )


def build(env_spec: EnvSpec, **keys: Any) -> SmolVLAPolicy:
    torch.manual_seed(0)
    policy = make(config(**keys), env_spec=env_spec)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return policy


def keys(rows: int) -> RowKeys:
    return RowKeys(tuple((3, row) for row in range(rows)))


def as_tensors(inputs: dict[str, np.ndarray]) -> dict[str, Tensor]:
    return {name: torch.from_numpy(array) for name, array in inputs.items()}


def test_log_probs_are_those_of_the_formula(env_spec: EnvSpec, observe) -> None:
    """πRL's flow_sde, written anew: s = a sqrt(t / (1 - t)), with t_1 = 2/3 for t = 1 below the
    line; mean = x0 (1 - (t - d)) + x1 (t - d - s^2 d / 2t); std = s sqrt(d)."""
    policy = build(env_spec)
    inputs = policy.prepare(observe(env_spec, 5))
    acted = policy.act(inputs, keys(5))
    chain = acted.replay["chain"]
    network = policy.actor.network
    prefix, state, _ = policy.network_inputs(as_tensors(inputs))
    seen = set()
    for row, index in enumerate(acted.replay["denoise_index"].tolist()):
        t, d, a = 1 - index / 3, 1 / 3, 0.7
        x = chain[row : row + 1, index]
        with torch.no_grad():
            cache = network.encode_prefix(prefix, state)
            times = torch.full((5,), t)
            points = x.expand(5, -1, -1)
            features = network.suffix_features(cache, state, points, times)
            v = network.velocity(features)[row]
        s = a * math.sqrt(t / (1 - (2 / 3 if index == 0 else t)))
        mean = (x[0] - v * t) * (1 - (t - d)) + (x[0] + v * (1 - t)) * (t - d - s**2 * d / (2 * t))
        std = s * math.sqrt(d)
        z = (chain[row, index + 1] - mean) / std
        expected = -math.log(std) - 0.5 * math.log(2 * math.pi) - 0.5 * z**2
        torch.testing.assert_close(
            acted.logprobs[row], expected[:4, :4], rtol=1e-4, atol=1e-4, check_stride=False
        )
        seen.add(index)
    assert len(seen) > 1


def test_gradients_are_those_of_differences(env_spec: EnvSpec, observe) -> None:
    """Of log-probs and values by weights of the expert, of the state's projection, which the VLM
    reads, and of the VLM."""
    policy = build(env_spec)
    inputs = as_tensors(policy.prepare(observe(env_spec, 3)))
    acted = policy.act(policy.prepare(observe(env_spec, 3)), keys(3))

    def score() -> Tensor:
        evaluation = policy.evaluate(inputs, acted.replay)
        return evaluation.logprobs.double().sum() + evaluation.values.double().sum()

    score().backward()
    network = policy.actor.network
    step = 1e-2
    for parameter in (
        network.action_out_proj.bias,
        network.state_proj.bias,
        network.expert.stack[1].self_attn.k_proj.weight,
        network.language_model.stack[0].mlp.down_proj.weight,
    ):
        place = int(parameter.grad.abs().argmax())
        flat = parameter.data.view(-1)
        with torch.no_grad():
            flat[place] += step
            above = score()
            flat[place] -= 2 * step
            below = score()
            flat[place] += step
        difference = (above - below).item() / (2 * step)
        assert difference == pytest.approx(parameter.grad.view(-1)[place].item(), rel=0.03)


def test_expert_only_trains_the_states_projection_too(env_spec: EnvSpec, observe) -> None:
    policy = build(env_spec, train_expert_only=True)
    inputs = policy.prepare(observe(env_spec, 2))
    score = policy.evaluate(as_tensors(inputs), policy.act(inputs, keys(2)).replay)
    (score.logprobs.sum() + score.values.sum()).backward()
    network = policy.actor.network
    assert all(not p.requires_grad and p.grad is None for p in network.vlm.parameters())
    assert network.state_proj.weight.grad.abs().sum() > 0
    assert network.action_in_proj.weight.grad.abs().sum() > 0
    trainable = sum(p.numel() for p in policy.parameters() if p.requires_grad)
    assert policy.spec.trainable_parameters == trainable


@pytest.mark.parametrize("mode", ["mean_token", "last_token", "first_token"])
def test_a_critic_reads_tokens_of_the_vlm(env_spec: EnvSpec, observe, mode: str) -> None:
    """One camera of 16 tokens, 24 of the prompt with padding, and the state, which is the last."""
    policy = build(env_spec, value_after_vlm=True, value_vlm_mode=mode, critic_elapsed=True)
    inputs = policy.prepare(observe(env_spec, 3))
    acted = policy.act(inputs, keys(3))
    prefix, state, elapsed = policy.network_inputs(as_tensors(inputs))
    with torch.no_grad():
        _, output, mask = policy.actor.network.read_prefix(prefix, state, need_output=True)
        read = {
            "mean_token": output.mean(1),
            "last_token": output[:, 40],
            "first_token": output[:, 0],
        }
        seen = torch.cat([read[mode], 2 * elapsed[:, None] - 1], dim=1)
        hidden, last = policy.actor.value_head.mlp[0], policy.actor.value_head.mlp[2]
        values = last(hidden(seen).clamp(min=0))
    assert output.shape == (3, 41, 64) and mask[:, -1].all() and not mask.all()
    torch.testing.assert_close(acted.values, values, rtol=1e-4, atol=1e-5)
    again = policy.evaluate(as_tensors(inputs), acted.replay)
    torch.testing.assert_close(again.values, values, rtol=1e-4, atol=1e-5)


def test_the_state_reaches_the_critic_through_the_vlm(env_spec: EnvSpec, observe) -> None:
    """No token attends to the state but itself: a critic on the first token does not see it."""
    observation = observe(env_spec, 3)
    other = {**observation, "states": observation["states"] + 0.5}
    moved = {}
    for mode in ("first_token", "last_token"):
        policy = build(env_spec, value_after_vlm=True, value_vlm_mode=mode)
        values = [policy.act(policy.prepare(o), keys(3)).values for o in (observation, other)]
        moved[mode] = (values[0] - values[1]).abs().max().item()
    assert moved["first_token"] == 0.0 and moved["last_token"] > 1e-4


@pytest.mark.parametrize("after_vlm", [False, True])
def test_the_cache_of_a_decision_has_the_planned_size(
    env_spec: EnvSpec, observe, after_vlm: bool
) -> None:
    policy = build(env_spec, value_after_vlm=after_vlm)
    prefix, state, _ = policy.network_inputs(as_tensors(policy.prepare(observe(env_spec, 2))))
    cache = policy.actor.network.encode_prefix(prefix, state, need_output=after_vlm)
    kept = [tensor for layer in cache.layers for tensor in layer]
    kept += [] if cache.output is None else [cache.output]
    assert sum(tensor.numel() for tensor in kept) == 2 * policy.spec.cache_size


def test_a_frozen_encoder_pools_what_the_vlm_makes_of_existing_tokens(
    env_spec: EnvSpec, observe
) -> None:
    policy = build(env_spec)
    inputs = as_tensors(policy.prepare(observe(env_spec, 3)))
    encoder = policy.frozen_encoder()
    features = encoder(inputs)
    assert features.shape == (3, policy.spec.feature_size)
    assert not any(parameter.requires_grad for parameter in encoder.parameters())
    names = [name for name, _ in encoder.named_parameters()]
    assert not any("lm_expert" in name for name in names)
    prefix, state, _ = policy.network_inputs(inputs)
    with torch.no_grad():
        _, output, _ = policy.actor.network.read_prefix(prefix, state, need_output=True)
        for row, words in enumerate(prefix.token_mask.sum(1).tolist()):
            existing = torch.cat([output[row, : 16 + words], output[row, -1:]])
            torch.testing.assert_close(features[row], existing.mean(0), atol=1e-6, rtol=1e-5)
        for parameter in policy.parameters():
            parameter.add_(0.1)
    assert torch.equal(encoder(inputs), features)


@pytest.mark.parametrize("size", ["tiny", "tiny_siglip"])
def test_bf16_acts_and_agrees_roughly(env_spec: EnvSpec, observe, size: str) -> None:
    settings = config(size=size)
    settings.precision = "bf16"
    policy = make(settings, env_spec=env_spec)
    kinds = {name: p.dtype for name, p in policy.actor.network.named_parameters()}
    norms = ("input_layernorm", "post_attention_layernorm", "text_model.norm", "lm_expert.norm")
    kept = (*norms, "patch_embedding", "position_embedding")
    for name, kind in kinds.items():
        inside = name.startswith("vlm_with_expert.") and not any(part in name for part in kept)
        assert kind == (torch.bfloat16 if inside else torch.float32), name
    inputs = policy.prepare(observe(env_spec, 3))
    out = policy.act(inputs, keys(3))
    again = policy.evaluate(as_tensors(inputs), out.replay)
    assert out.logprobs.dtype == again.values.dtype == torch.float32
    torch.testing.assert_close(again.logprobs, out.logprobs, atol=2e-2, rtol=0)
    torch.testing.assert_close(again.values, out.values, atol=2e-2, rtol=0)


def test_adapters_start_as_nothing_and_are_merged(
    env_spec: EnvSpec, observe, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    plain = make(config(), env_spec=env_spec)
    torch.manual_seed(0)
    policy = make(config(is_lora=True), env_spec=env_spec)
    inputs = policy.prepare(observe(env_spec, 2))
    first = policy.act(inputs, keys(2))
    np.testing.assert_array_equal(first.actions, plain.act(inputs, keys(2)).actions)
    assert policy.spec.parameters == sum(p.numel() for p in policy.parameters())
    with torch.no_grad():
        for name, parameter in policy.named_parameters():
            if "lora_B" in name:
                parameter.add_(0.3)
    moved = policy.act(inputs, keys(2)).actions
    assert np.abs(moved - first.actions).max() > 1e-4
    policy.save_pretrained(tmp_path)
    saved = config()
    saved.model_path = str(tmp_path)
    loaded = make(saved, env_spec=env_spec)
    np.testing.assert_allclose(loaded.act(inputs, keys(2)).actions, moved, atol=1e-5)


def test_round_trip_is_bitwise(env_spec: EnvSpec, demonstrate, tmp_path: Path) -> None:
    """With statistics, a critic on the VLM and a noise head."""
    heads: dict[str, Any] = {"value_after_vlm": True, "noise_method": "flow_noise"}
    policy = build(env_spec, **heads)
    policy.fit_normalizer([demonstrate(env_spec, 9)])
    policy.save_pretrained(tmp_path / "saved")
    settings = config(**heads)
    settings.model_path = str(tmp_path / "saved")
    loaded = make(settings, env_spec=env_spec)
    weights = loaded.state_dict()
    assert weights.keys() == policy.state_dict().keys()
    assert all(torch.equal(weights[name], value) for name, value in policy.state_dict().items())
    loaded.save_pretrained(tmp_path / "again")
    for file in (tmp_path / "saved").iterdir():
        assert file.read_bytes() == (tmp_path / "again" / file.name).read_bytes(), file.name


def test_lerobot_does_not_build_other_networks(env_spec: EnvSpec, tmp_path: Path, refused) -> None:
    build(env_spec).save_pretrained(tmp_path / "saved")
    (tmp_path / "out").mkdir()
    with refused(ConfigError, "SmolVLM2-500M", "--layout"):
        write_lerobot(tmp_path / "saved", tmp_path / "out")


def test_the_size_of_a_saved_policy_must_be_set(env_spec: EnvSpec, tmp_path: Path, refuse) -> None:
    build(env_spec).save_pretrained(tmp_path)
    other = config(size="smolvla", action_horizon=6)
    other.model_path = str(tmp_path)
    refuse(other, "vlm_width", "64", "size=tiny")
    stored = json.loads((tmp_path / "config.json").read_text())
    assert stored["rlcore"]["size"]["action_horizon"] == stored["chunk_size"] == 6


def test_a_saved_policy_keeps_cameras_called_like_those_of_the_base_model(
    other_env: Callable[..., EnvSpec], tmp_path: Path, refuse
) -> None:
    env = other_env(cameras=2)
    renamed = zip(("camera1", "camera2"), env.cameras, strict=True)
    env = replace(env, cameras=tuple(replace(camera, name=name) for name, camera in renamed))
    keys = config()
    keys.num_images_in_input = None  # from scratch: all cameras of the env
    make(keys, env_spec=env).save_pretrained(tmp_path)
    keys.model_path = str(tmp_path)
    assert list(make(keys, env_spec=env).processor.resolved.cameras) == ["camera1", "camera2"]
    keys.num_images_in_input = 1
    refuse(keys, "actor.model.num_images_in_input=2", env=env)


def test_a_critic_of_another_input_is_refused(env_spec: EnvSpec, tmp_path: Path, refuse) -> None:
    """VLM and expert are equally wide at this size, so that the shapes fit."""
    build(env_spec).save_pretrained(tmp_path)
    other = config(value_after_vlm=True)
    other.model_path = str(tmp_path)
    refuse(other, "value_after_vlm False (got True)", "rl_heads.safetensors")


def test_heads_of_another_range_are_refused(env_spec: EnvSpec, tmp_path: Path, refuse) -> None:
    build(env_spec, noise_method="flow_noise").save_pretrained(tmp_path)
    other = config(noise_method="flow_noise", noise_logvar_range=[0.1, 0.2])
    other.model_path = str(tmp_path)
    refuse(other, "noise_logvar_range", "0.08")


@pytest.mark.parametrize(
    "changes",
    [
        {"noise_method": "flow_ode", "joint_logprob": True},
        {"action_horizon": 3},
        {"max_token_len": 2},
        {"is_lora": True, "train_expert_only": True},
    ],
)
def test_settings_that_exclude_each_other(env_spec: EnvSpec, refuse, changes: Any) -> None:
    refuse(config(**changes), kind=ConfigError)
