"""Acting, scoring and learning, beyond the checks that every policy passes."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from rlcore_model_openvla_oft.policy import make
from rlcore_model_openvla_oft.settings import OpenVLAOFTConfig

from rlcore.contracts.rng import RowKeys

KEYS = RowKeys(tuple((1, row) for row in range(3)))


def policy_of(env_spec, **changes):
    torch.manual_seed(0)
    base = {"size": "tiny", "num_action_chunks": 2, "critic_hidden": [8], "add_value_head": True}
    return make(OpenVLAOFTConfig(**{**base, **changes}), env_spec=env_spec)


def tensors(inputs):
    return {name: torch.from_numpy(array) for name, array in inputs.items()}


@pytest.mark.parametrize("greedy", [False, True])
@pytest.mark.parametrize("version", ["rlinf", "official"])
def test_acting_agrees_with_scoring_at_every_temperature(env_spec, observe, version, greedy):
    policy = policy_of(env_spec, implement_version=version, top_k=40)
    inputs = policy.actor_inputs(tensors(policy.prepare(observe(env_spec, 3))))
    uniform = None if greedy else torch.from_numpy(KEYS.uniform("action_tokens", (8,)))
    for temperature in (0.25, 1.0, 1.6, 4.0):
        policy.actor.temperature = temperature
        with torch.no_grad():
            decision, acted = policy.actor.decide(inputs, uniform)
            scored = policy.actor.score(inputs, decision)
        for name in ("logprobs", "values", "entropy"):
            got, expected = vars(scored)[name], vars(acted)[name]
            torch.testing.assert_close(got, expected, rtol=0, atol=1e-5)
        assert (acted.logprobs > -math.inf).all()


def test_cold_sampling_is_greedy(env_spec, observe):
    policy = policy_of(env_spec, temperature=1e-5)
    inputs = policy.prepare(observe(env_spec, 3))
    sampled, greedy = policy.act(inputs, KEYS), policy.act(inputs, KEYS, deterministic=True)
    np.testing.assert_array_equal(sampled.actions, greedy.actions)


def test_tokens_are_drawn_one_uniform_number_each(env_spec, observe):
    """The first token whose cumulated probability exceeds its number, from a loop."""
    policy = policy_of(env_spec, temperature=1.6)
    prepared = policy.prepare(observe(env_spec, 3))
    tokens = policy.act(prepared, KEYS).replay["action_tokens"].flatten(1)
    with torch.no_grad():
        logits = policy.actor.read(policy.actor_inputs(tensors(prepared)), tokens).logits
    probabilities = torch.softmax(logits.double() / 1.6, dim=-1).numpy()
    numbers = KEYS.uniform("action_tokens", (8,))
    for row in range(3):
        for slot in range(8):
            total, token = 0.0, -1
            while total <= numbers[row, slot]:
                token += 1
                total += probabilities[row, slot, token]
            assert tokens[row, slot] == token


def test_only_executed_entries_count(env_spec, observe, demonstrate):
    """Of seven entries the env takes four: their log-probs, their loss, their actions."""
    policy = policy_of(env_spec, action_dim=7, action_entries=[0, 1, 2, 6], num_action_chunks=2)
    policy.fit_normalizer([demonstrate(env_spec, 20)])
    prepared = policy.prepare(observe(env_spec, 3))
    output = policy.act(prepared, KEYS)
    tokens = output.replay["action_tokens"]
    assert tokens.shape == (3, 2, 7) and output.logprobs.shape == (3, 2, 4)
    changed = tokens.clone()
    changed[..., 3:6] = 255 - changed[..., 3:6]
    same = policy.evaluate(tensors(prepared), {"action_tokens": changed})
    torch.testing.assert_close(same.logprobs, output.logprobs, rtol=0, atol=1e-5)
    np.testing.assert_array_equal(policy.processor.to_env_actions(changed.numpy()), output.actions)


def test_the_supervised_loss_is_the_cross_entropy_of_the_demonstrated_tokens(env_spec, demonstrate):
    policy = policy_of(env_spec)
    demonstration = demonstrate(env_spec, 9)
    policy.fit_normalizer([demonstration])
    inputs, actions, mask = policy.sft_batch(demonstration, [0, 4])
    assert mask.tolist() == [[True, True], [True, False]]  # the second frame is the last step
    loss = policy.sft_loss(tensors(inputs), torch.from_numpy(actions), torch.from_numpy(mask), KEYS)
    with torch.no_grad():
        logits = policy.actor.read(policy.actor_inputs(tensors(inputs)), torch.zeros(0)).logits
    bounds = policy.processor.scaling.action
    for row, steps in enumerate((2, 1)):
        total = 0.0
        for step in range(steps):
            for entry in range(4):
                low, high = bounds.low[entry], bounds.high[entry]
                x = 2 * (actions[row, step, entry] - low) / (high - low + 1e-8) - 1
                edge = int(np.floor((np.clip(x, -1, 1) + 1) / 2 * 255))  # 256 edges, 255 bins
                token = 256 - (edge + 1)
                total -= torch.log_softmax(logits[row, step * 4 + entry], -1)[token].item()
        assert loss[row].item() == pytest.approx(total / (4 * steps), rel=1e-5)


def test_film_is_trained_beside_adapters(env_spec, observe):
    """Its layers start at zero: adapters alone would leave the sentence unread for good."""
    official = {"implement_version": "official", "use_film": True, "is_lora": True, "lora_rank": 2}
    policy = policy_of(env_spec, **official)
    inputs = policy.prepare(observe(env_spec, 3))
    replay = policy.act(inputs, KEYS).replay
    policy.evaluate(tensors(inputs), replay).logprobs.sum().backward()
    film = {n: p for n, p in policy.named_parameters() if ".scale." in n or ".shift." in n}
    trained = {id(p) for p in policy.parameter_groups()["policy"]}
    # of each tower's two blocks the first is read: a weight and a bias of scale and of shift
    used = [p for n, p in film.items() if ".blocks.0." in n]
    assert len(used) == 8 and all(p.grad.abs().max() > 0 and id(p) in trained for p in used)
    assert not any(id(p) in trained for n, p in film.items() if ".blocks.1." in n)


def test_statistics_are_those_of_the_demonstrations(env_spec, demonstrate):
    policy = policy_of(env_spec, unnorm_key="mine")
    demonstrations = [demonstrate(env_spec, 30, seed) for seed in range(3)]
    policy.fit_normalizer(demonstrations)
    actions = np.concatenate([demo.actions for demo in demonstrations]).astype(np.float64)
    low, high = np.quantile(actions, [0.01, 0.99], axis=0)
    np.testing.assert_allclose(policy.processor.scaling.action.low, low)
    np.testing.assert_allclose(policy.processor.scaling.action.high, high)
    assert list(policy.processor.scaling.all) == ["mine"]


def test_bf16_acts_and_agrees_with_itself(env_spec, observe):
    policy = policy_of(env_spec, precision="bf16")
    assert policy.actor.network.dtype == torch.bfloat16
    assert next(policy.actor.value_head.parameters()).dtype == torch.float32
    prepared = policy.prepare(observe(env_spec, 3))
    output = policy.act(prepared, KEYS)
    again = policy.evaluate(tensors(prepared), output.replay)
    assert output.logprobs.dtype == again.logprobs.dtype == torch.float32
    torch.testing.assert_close(again.logprobs, output.logprobs, rtol=0, atol=0.05)
