"""The policy as core sees it: agreement, keyed noise, learning, and what may train."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from rlcore_model_openpi.policy import OpenPIPolicy, make
from rlcore_model_openpi.prefix import prefix_inputs
from rlcore_model_openpi.settings import OpenPIConfig, OpenPIModelConfig

from rlcore.contracts.rng import RowKeys

pytestmark = pytest.mark.usefixtures("one_thread")
TOLERANCE = 1e-5

EXPERT = {"critic_elapsed": True}
VALUE_MODES = {
    "expert": EXPERT,
    "expert_detached": {"detach_critic_input": True},
    "vlm_mean": {"value_after_vlm": True, "critic_elapsed": True},
    "vlm_last": {"value_after_vlm": True, "value_vlm_mode": "last_token"},
    "per_action": {"value_type": "action_level", **EXPERT},
    "vlm_first": {"value_after_vlm": True, "value_vlm_mode": "first_token"},
}


def build(env_spec, *, seed: int = 0, model: dict | None = None, **openpi) -> OpenPIPolicy:
    """A tiny policy whose weights are not at their (partly zero) start."""
    base = {
        "size": "tiny",
        "action_horizon": 6,
        "num_steps": 3,
        "noise_level": 0.8,
        "train_expert_only": False,
        "critic_hidden": [16],
    }
    config = OpenPIModelConfig(
        **{
            "num_action_chunks": 4,
            "add_value_head": True,
            "num_images_in_input": len(env_spec.cameras),
            **(model or {}),
        },
        openpi=OpenPIConfig(**{**base, **openpi}),
    )
    torch.manual_seed(seed)
    policy = make(config, env_spec=env_spec)
    shake(policy)
    return policy


def shake(policy: OpenPIPolicy, scale: float = 0.05) -> None:
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter += scale * torch.randn(parameter.shape).to(parameter.dtype)


def keys(rows: int, start: int = 0) -> RowKeys:
    return RowKeys(tuple((7, "rollout", start + row) for row in range(rows)))


def as_tensors(inputs) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(array) for name, array in inputs.items()}


def assert_agree(policy: OpenPIPolicy, inputs, rows: int) -> None:
    out = policy.act(inputs, keys(rows))
    again = policy.evaluate(as_tensors(inputs), out.replay)
    torch.testing.assert_close(again.logprobs, out.logprobs, atol=TOLERANCE, rtol=0)
    torch.testing.assert_close(again.values, out.values, atol=TOLERANCE, rtol=0)
    assert out.actions.shape == (rows, 4, 4) and out.actions.dtype == np.float32
    assert again.logprobs.shape == (rows, 4, 4) and again.logprobs.dtype == torch.float32
    assert again.values.shape == (rows, policy.spec.value_dim)
    torch.broadcast_to(again.entropy, again.logprobs.shape)
    assert (out.logprobs != 0).any()


@pytest.mark.parametrize("value_mode", VALUE_MODES)
def test_act_and_evaluate_agree_for_every_critic(env_spec, observe, value_mode):
    config_name = "pi05_metaworld" if value_mode.startswith("vlm") else "pi0_metaworld"
    policy = build(env_spec, config_name=config_name, **VALUE_MODES[value_mode])
    assert_agree(policy, policy.prepare(observe(env_spec, 5)), 5)


def test_no_critic_no_values(env_spec, observe):
    policy = build(env_spec, model={"add_value_head": False})
    assert_agree(policy, policy.prepare(observe(env_spec, 2)), 2)
    assert policy.parameter_groups()["value"] == []


def test_gradients_reach_policy_and_critic(env_spec, observe):
    policy = build(env_spec, detach_critic_input=True, critic_elapsed=True)
    inputs = policy.prepare(observe(env_spec, 4))
    out = policy.act(inputs, keys(4))
    groups = policy.parameter_groups()
    policy.evaluate(as_tensors(inputs), out.replay).values.sum().backward()
    assert all(p.grad is not None for p in groups["value"])
    assert all(p.grad is None for p in groups["policy"])  # detached
    policy.evaluate(as_tensors(inputs), out.replay).logprobs.sum().backward()
    assert sum(float(p.grad.abs().sum()) for p in groups["policy"] if p.grad is not None) > 0


def test_entropy_is_the_mean_over_executed_entries(env_spec, observe):
    # Where the head's range is one point, every std is 0.5, whatever the weights: each step has
    # entropy log(2 pi e 0.25) / 2 = (1.8378771 + 1 - 1.3862944) / 2 = 0.7257914, and the initial
    # noise log(2 pi e) / 2 = 1.4189385. Joint, K = 3: (3 * 0.7257914 + 1.4189385) / 4 = 0.8990782
    for joint, expected in ((False, 0.7257914), (True, 0.8990782)):
        policy = build(
            env_spec,
            noise_method="flow_noise",
            joint_logprob=joint,
            noise_logvar_range=[0.5, 0.5],
        )
        inputs = policy.prepare(observe(env_spec, 3))
        out = policy.act(inputs, keys(3))
        entropy = policy.evaluate(as_tensors(inputs), out.replay).entropy
        torch.testing.assert_close(entropy, torch.full((3, 1, 1), expected), atol=1e-5, rtol=0)


# -- randomness ---------------------------------------------------------------------------------


def test_other_keys_give_other_actions_and_steps(env_spec, observe):
    policy = build(env_spec)
    inputs = policy.prepare(observe(env_spec, 24))
    out = policy.act(inputs, keys(24))
    assert np.abs(policy.act(inputs, keys(24, start=100)).actions - out.actions).max() > 0.1
    assert set(out.replay["denoise_index"].tolist()) == {0, 1, 2}


def test_deterministic_decisions_have_no_log_prob(env_spec, observe):
    policy = build(env_spec)
    inputs = policy.prepare(observe(env_spec, 3))
    out = policy.act(inputs, keys(3), deterministic=True)
    assert (out.logprobs == 0).all()
    # the noise level is exploration's alone
    loud = build(env_spec, noise_level=3.0)
    same = loud.act(inputs, keys(3), deterministic=True)
    np.testing.assert_array_equal(same.actions, out.actions)


def test_the_noise_level_is_annealed(env_spec, observe):
    policy = build(env_spec, noise_anneal=True, noise_params=[1.0, 0.0, 10])
    inputs = policy.prepare(observe(env_spec, 3))
    plain = policy.act(inputs, keys(3), deterministic=True).actions

    def distance(update: int) -> float:
        policy.set_progress(update)
        return float(np.abs(policy.act(inputs, keys(3)).actions - plain).max())

    # 1 at the start, 0.5 half way, 0 from update 10 on: no noise at all
    assert distance(0) > distance(5) > 0.01
    assert distance(10) == distance(99) == 0.0


# -- what is read -------------------------------------------------------------------------------


def changed(policy, inputs, other) -> float:
    rows = len(inputs["state"])
    first = policy.act(inputs, keys(rows), deterministic=True)
    second = policy.act(other, keys(rows), deterministic=True)
    return float(np.abs(first.actions - second.actions).max())


def test_pi0_reads_the_state(env_spec, observe):
    policy = build(env_spec)
    observation = observe(env_spec, 3)
    inputs = policy.prepare(observation)
    other = policy.prepare({**observation, "states": observation["states"] + 0.5})
    assert changed(policy, inputs, other) > 1e-4


def test_pi05_without_discrete_state_ignores_the_state(env_spec, observe):
    policy = build(env_spec, config_name="pi05_metaworld")
    observation = observe(env_spec, 3)
    inputs = policy.prepare(observation)
    other = policy.prepare({**observation, "states": observation["states"] + 0.5})
    assert changed(policy, inputs, other) == 0.0


def test_missing_cameras_matter_to_the_padding_alone(env_spec, observe):
    # The actions must not depend on whether missing cameras are left out or masked; a critic that
    # averages over the padded prompt must, as published critics were trained with all three.
    out = build(env_spec, value_after_vlm=True, value_vlm_mode="first_token")
    masked = build(env_spec, value_after_vlm=True, value_vlm_mode="mean_token")
    masked.load_state_dict(out.state_dict())
    inputs = out.prepare(observe(env_spec, 3))
    assert out.network_inputs(as_tensors(inputs))[0].images.shape[1] == 1
    assert masked.network_inputs(as_tensors(inputs))[0].images.shape[1] == 3
    np.testing.assert_allclose(
        out.act(inputs, keys(3)).actions, masked.act(inputs, keys(3)).actions, atol=TOLERANCE
    )
    acted = masked.act(inputs, keys(3))
    one_image, state, elapsed = out.network_inputs(as_tensors(inputs))
    replay = (acted.replay["chain"], acted.replay["denoise_index"])
    left_out = masked.actor.recompute(one_image, state, *replay, elapsed=elapsed)
    assert (left_out.values - acted.values).abs().max() > 1e-6


# -- supervised learning ------------------------------------------------------------------------


def test_supervised_inputs_are_those_of_their_frames(env_spec, demonstrate):
    """Frames 0 and 3 stand before steps 0 and 6."""
    demonstration = demonstrate(env_spec, 9)
    inputs, _, _ = build(env_spec).sft_batch(demonstration, [0, 3])
    np.testing.assert_array_equal(inputs["robot_state"], demonstration.states[[0, 6]])
    np.testing.assert_allclose(inputs["elapsed"], [0, 6 / 40])


def test_sft_loss_against_a_loop(env_spec, demonstrate):
    policy = build(env_spec)
    policy.fit_normalizer([demonstrate(env_spec, 9)])
    inputs, actions, mask = policy.sft_batch(demonstrate(env_spec, 9), [0, 3])
    tensors = as_tensors(inputs)
    loss = policy.sft_loss(tensors, torch.from_numpy(actions), torch.from_numpy(mask), keys(2))
    normalizer = policy.processor.normalizer
    prefix, state, _ = policy.network_inputs(tensors)
    noise = torch.from_numpy(keys(2).normal("sft_noise", (6, 8)))
    for row in range(2):
        t = torch.tensor(keys(2).beta("sft_time", 1.5, 1.0)[row] * 0.999 + 0.001).float()
        target = torch.zeros(6, 8)
        for step in range(6):
            for entry in range(4):
                mean = normalizer.actions.mean[entry]
                std = normalizer.actions.std[entry]
                target[step, entry] = (actions[row, step, entry] - mean) / (std + 1e-6)
        noisy = t * noise[row] + (1 - t) * target
        network = policy.actor.network
        one = replace(
            prefix,
            **{name: value[row : row + 1] for name, value in vars(prefix).items()},
        )
        own_state = state[row : row + 1]
        cache = network.encode_prefix(one, own_state)
        features = network.suffix_features(cache, own_state, noisy[None], t[None])
        error = (network.velocity(features)[0] - (noise[row] - target)).detach() ** 2
        steps = int(mask[row].sum())
        expected = sum(float(error[step].mean()) for step in range(steps)) / steps
        assert loss[row].item() == pytest.approx(expected, rel=1e-4)


# -- what trains --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "openpi"),
    [
        ({}, {"train_expert_only": True}),
        ({}, {"config_name": "pi05_metaworld", "value_after_vlm": True}),
        ({"is_lora": True, "lora_rank": 4}, {}),
        ({"is_lora": True, "lora_rank": 2, "add_value_head": False}, {"size": "small"}),
    ],
)
def test_parameter_groups_and_counts(env_spec, model, openpi):
    policy = build(env_spec, model=model, **openpi)
    groups = policy.parameter_groups()
    ids = [id(parameter) for group in groups.values() for parameter in group]
    trainable = [p for p in policy.parameters() if p.requires_grad]
    assert len(ids) == len(set(ids)) and set(ids) == {id(p) for p in trainable}
    assert policy.spec.trainable_parameters == sum(p.numel() for p in trainable)
    assert policy.spec.parameters == sum(p.numel() for p in policy.parameters())


@pytest.mark.parametrize("openpi", [{}, {"config_name": "pi05_metaworld", "value_after_vlm": True}])
def test_the_cache_of_a_decision_has_the_planned_size(env_spec, observe, openpi):
    policy = build(env_spec, **openpi)
    prefix, state, _ = policy.network_inputs(as_tensors(policy.prepare(observe(env_spec, 2))))
    cache = policy.actor._encode(prefix, state)
    kept = [tensor for layer in cache.layers for tensor in layer]
    kept += [] if cache.output is None else [cache.output]
    assert sum(tensor.numel() for tensor in kept) == 2 * policy.spec.cache_size


def test_expert_only_leaves_the_vlm_alone(env_spec, observe, demonstrate):
    policy = build(env_spec, train_expert_only=True)
    inputs = policy.prepare(observe(env_spec, 2))
    out = policy.act(inputs, keys(2))
    score = policy.evaluate(as_tensors(inputs), out.replay)
    (score.logprobs.sum() + score.values.sum()).backward()
    vlm = list(policy.actor.network.vlm.parameters())
    assert vlm and all(not p.requires_grad and p.grad is None for p in vlm)
    prefix, state, _ = policy.network_inputs(as_tensors(inputs))
    cache = policy.actor.network.encode_prefix(prefix, state)
    assert not any(tensor.requires_grad for layer in cache.layers for tensor in layer)


def test_lora_starts_as_nothing_and_trains_the_vlm(env_spec, observe):
    plain = build(env_spec)
    lora = make(replace(plain.config, is_lora=True, lora_rank=4), env_spec=env_spec)
    names = {name.replace(".base_layer.", "."): name for name, _ in lora.named_parameters()}
    with torch.no_grad():
        for name, parameter in plain.named_parameters():
            lora.get_parameter(names[name]).copy_(parameter)
    inputs = plain.prepare(observe(env_spec, 3))
    out = plain.act(inputs, keys(3))
    np.testing.assert_allclose(lora.act(inputs, keys(3)).actions, out.actions, atol=TOLERANCE)
    lora.evaluate(as_tensors(inputs), out.replay).logprobs.sum().backward()
    gradients = {n: p.grad for n, p in lora.named_parameters() if "lora_B" in n}
    assert gradients and any(float(g.abs().sum()) > 0 for g in gradients.values())


def test_bf16_acts_and_agrees_roughly(env_spec, observe):
    policy = build(env_spec, model={"precision": "bf16"}, **EXPERT)
    inputs = policy.prepare(observe(env_spec, 3))
    out = policy.act(inputs, keys(3))
    again = policy.evaluate(as_tensors(inputs), out.replay)
    assert out.logprobs.dtype == again.values.dtype == torch.float32
    torch.testing.assert_close(again.logprobs, out.logprobs, atol=2e-2, rtol=0)
    torch.testing.assert_close(again.values, out.values, atol=2e-2, rtol=0)


def test_the_frozen_encoder_pools_what_the_vlm_makes_of_existing_tokens(env_spec, observe):
    policy = build(env_spec)
    inputs = as_tensors(policy.prepare(observe(env_spec, 3)))
    encoder = policy.frozen_encoder()
    features = encoder(inputs)
    prefix = prefix_inputs(inputs, torch.device("cpu"), masked_images=0)
    with torch.no_grad():
        network = policy.actor.network
        output = network.encode_prefix(prefix, inputs["state"], need_output=True).output
    cameras = policy.actor.network.size.image_tokens * prefix.images.shape[1]
    assert features.shape == (len(output), policy.spec.feature_size)
    for row, words in enumerate(prefix.token_mask.sum(1).tolist()):
        existing = output[row, : cameras + words]
        torch.testing.assert_close(features[row], existing.mean(0), atol=1e-6, rtol=1e-5)
    shake(policy)
    assert torch.equal(encoder(inputs), features)
