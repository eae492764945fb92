"""The policy as core sees it: agreement, sampling, units, learning, and what may train."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from rlcore_prismatic import sampling
from rlcore_prismatic.policy import TokenPolicy
from rlcore_prismatic.scaling import scaling
from rlcore_testing.conformance.fake_env import fake_demonstration, fake_env, fake_observation

from rlcore.contracts.rng import RowKeys
from rlcore.contracts.specs import ActionChannel

TOLERANCE = 1e-5


def keys(rows: int) -> RowKeys:
    return RowKeys(tuple((7, "rollout", row) for row in range(rows)))


def uniform(keys: RowKeys, tokens: int) -> torch.Tensor:
    """The uniform numbers by which a decision's tokens are drawn."""
    return torch.from_numpy(keys.uniform("action_tokens", (tokens,)))


def as_tensors(inputs) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(array) for name, array in inputs.items()}


def prepared(policy: TokenPolicy, rows: int):
    return policy.prepare(fake_observation(fake_env(), rows))


@pytest.mark.parametrize("deterministic", [False, True], ids=["sampled", "greedy"])
@pytest.mark.parametrize("top_k", [-1, 1, 20])
@pytest.mark.parametrize("temperature", [0.2, 1.6])
def test_act_and_evaluate_agree(build, temperature, top_k, deterministic):
    """Also the density of greedy tokens, which act itself does not report."""
    policy = build(temperature=temperature, top_k=top_k, num_action_chunks=2)
    inputs = prepared(policy, 5)
    out = policy.act(inputs, keys(5), deterministic=deterministic)
    again = policy.evaluate(as_tensors(inputs), out.replay)
    drawn = None if deterministic else uniform(keys(5), 8)
    with torch.no_grad():
        decision, score = policy.actor.decide(policy.actor_inputs(as_tensors(inputs)), drawn)
    assert torch.equal(decision.indices.unflatten(1, (2, 4)), out.replay["action_tokens"])
    expected = score.logprobs.unflatten(1, (2, 4))
    torch.testing.assert_close(again.logprobs, expected, atol=TOLERANCE, rtol=0)
    torch.testing.assert_close(again.values, out.values, atol=TOLERANCE, rtol=0)
    torch.testing.assert_close(
        again.entropy, score.entropy.unflatten(1, (2, 4)), atol=TOLERANCE, rtol=0
    )
    if deterministic:
        assert not out.logprobs.any()
    else:
        torch.testing.assert_close(out.logprobs, expected)
        assert (out.logprobs != 0).any() == (top_k != 1)


@pytest.mark.parametrize("deterministic", [False, True], ids=["sampled", "greedy"])
def test_top_k_is_finite_after_the_weights_have_moved(build, deterministic):
    """Other weights have other likeliest tokens; the stored ones are scored among those they were
    drawn from. So it is in an update, and under reference weights."""
    policy = build(top_k=3, num_action_chunks=2)
    inputs = prepared(policy, 5)
    out = policy.act(inputs, keys(5), deterministic=deterministic)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter += 0.3 * torch.randn(parameter.shape)
    again = policy.evaluate(as_tensors(inputs), out.replay)
    assert again.logprobs.isfinite().all() and again.entropy.isfinite().all()
    assert (again.entropy <= np.log(3) + 1e-5).all()
    tokens = out.replay["action_tokens"].flatten(1)
    with torch.no_grad():
        logits = policy.actor.read(policy.actor_inputs(as_tensors(inputs)), tokens).logits
    present = logits.topk(3).indices
    assert not (present == tokens[..., None]).any(-1).all()  # or nothing above would show it
    (again.logprobs.sum() + again.entropy.sum()).backward()
    gradients = [p.grad for p in policy.parameters() if p.grad is not None]
    assert gradients and all(gradient.isfinite().all() for gradient in gradients)


def test_recomputing_activations_changes_nothing(build):
    """Layers that recompute drop the cache: the tokens after the first would be blind."""
    policy = build(num_action_chunks=2)
    inputs = prepared(policy, 3)
    out = policy.act(inputs, keys(3))
    policy.set_checkpointing(True)
    policy.train()
    again = policy.act(inputs, keys(3))
    assert torch.equal(again.replay["action_tokens"], out.replay["action_tokens"])
    torch.testing.assert_close(again.logprobs, out.logprobs, atol=TOLERANCE, rtol=0)

    def gradients() -> list[torch.Tensor]:
        policy.zero_grad()
        evaluation = policy.evaluate(as_tensors(inputs), out.replay)
        (evaluation.logprobs.sum() + evaluation.values.sum()).backward()
        return [p.grad.clone() for p in policy.parameters() if p.grad is not None]

    recomputed = gradients()
    policy.set_checkpointing(False)
    for got, expected in zip(recomputed, gradients(), strict=True):
        torch.testing.assert_close(got, expected, atol=1e-4, rtol=1e-4)
    assert len(recomputed) > 50


def test_bf16_acts_and_evaluates(build):
    """Alike to what 8 bits of mantissa allow; log-probs and values are fp32."""
    policy = build(precision="bf16", num_action_chunks=2)
    inputs = prepared(policy, 4)
    out = policy.act(inputs, keys(4))
    again = policy.evaluate(as_tensors(inputs), out.replay)
    assert out.logprobs.dtype == again.logprobs.dtype == again.values.dtype == torch.float32
    assert (again.logprobs - out.logprobs).abs().mean() < 0.1


def test_tokens_are_drawn_from_their_distribution(build):
    """4000 draws of the first token at one observation: each of the likeliest tokens about as
    often as its probability says, within four standard deviations."""
    policy = build(temperature=1.6, top_k=5)
    rows = 4000
    one = as_tensors(prepared(policy, 1))
    inputs = policy.actor_inputs(one)
    with torch.no_grad():
        logits = policy.actor.read(inputs, torch.zeros(1, 4, dtype=torch.int64)).logits[0, 0]
    scaled = logits.double() / 1.6
    kept = scaled.topk(5).indices
    p = torch.softmax(scaled[kept], dim=0)
    drawn = uniform(keys(rows), 4)[:, 0]
    allowed = sampling.likeliest(logits, 5)
    logprobs = sampling.log_probs(logits, temperature=1.6, allowed=allowed).expand(rows, -1)
    tokens = sampling.inverse_cdf(logprobs, drawn)
    assert set(tokens.tolist()) <= set(kept.tolist())
    for token, probability in zip(kept.tolist(), p.tolist(), strict=True):
        spread = (rows * probability * (1 - probability)) ** 0.5
        assert abs((tokens == token).sum().item() - rows * probability) < 4 * spread + 1


def test_actions_are_in_the_bounds_of_the_data_as_in_the_original(build):
    """Bounds [-0.5, 1.5] and the lowest bin, token 255: its middle is -1 + 1/255, so the action
    is -0.5 + 2/2 * 1/255, without OpenVLA-OFT's 1e-8."""
    policy = build()
    entry = {"q01": [-0.5] * 4, "q99": [1.5] * 4, "mask": [True, True, True, False]}
    processor = policy.processor
    found = {"robot": {"action": entry}}
    processor.scaling = scaling(policy.config, processor.resolved, found, "robot", origin="here")
    actions = processor.to_env_actions(np.full((1, 1, 4), 255))
    lowest = -1 + 1 / 255
    np.testing.assert_allclose(actions[0, 0], [-0.5 + 1 / 255] * 3 + [lowest], atol=1e-7)
    assert processor.resolved.epsilon == 0.0


@pytest.mark.parametrize("deterministic", [False, True], ids=["sampled", "greedy"])
def test_entries_that_are_not_executed_decide_nothing(build, deterministic):
    """They hold the middle token of 256, whatever is drawn, stored or demonstrated there; else
    the tokens after them would depend on choices that no log-prob counts."""
    policy = build(action_dim=7, action_entries=[0, 1, 2, 6], num_action_chunks=2)
    inputs = prepared(policy, 3)
    out = policy.act(inputs, keys(3), deterministic=deterministic)
    tokens = out.replay["action_tokens"]
    assert out.actions.shape == (3, 2, 4) and tokens.shape == (3, 2, 7)
    assert (tokens[..., 3:6] == 128).all() and (tokens[..., [0, 1, 2, 6]] != 128).any()
    changed = tokens.clone()
    changed[..., 3:6] = 5
    again = policy.evaluate(as_tensors(inputs), {"action_tokens": tokens})
    same = policy.evaluate(as_tensors(inputs), {"action_tokens": changed})
    assert torch.equal(same.logprobs, again.logprobs)
    if not deterministic:
        torch.testing.assert_close(again.logprobs, out.logprobs, atol=TOLERANCE, rtol=0)
    actor_inputs = policy.actor_inputs(as_tensors(inputs))
    losses = [policy.actor.cross_entropy(actor_inputs, x.flatten(1)) for x in (tokens, changed)]
    executed = [loss.unflatten(1, (2, 7))[..., [0, 1, 2, 6]] for loss in losses]
    assert torch.equal(*executed)


@pytest.mark.parametrize(
    ("value_type", "chunk", "values"), [("chunk_level", 3, 1), ("action_level", 3, 3)]
)
def test_values_have_the_width_of_their_type(build, value_type, chunk, values):
    policy = build(value_type=value_type, num_action_chunks=chunk)
    assert policy.spec.value_dim == values
    assert policy.act(prepared(policy, 2), keys(2)).values.shape == (2, values)


def test_the_critic_is_all_that_its_loss_trains_if_its_input_is_detached(build):
    for detached in (True, False):
        policy = build(detach_critic_input=detached)
        inputs = prepared(policy, 2)
        out = policy.act(inputs, keys(2))
        policy.evaluate(as_tensors(inputs), out.replay).values.sum().backward()
        groups = policy.parameter_groups()
        assert all(p.grad is not None for p in groups["value"])
        assert any(p.grad is not None for p in groups["policy"]) is not detached


def test_without_a_critic_there_are_no_values(build):
    policy = build(add_value_head=False)
    assert policy.spec.value_dim == 0
    assert policy.parameter_groups()["value"] == []
    assert policy.act(prepared(policy, 2), keys(2)).values.shape == (2, 0)


def test_adapters_alone_are_trained(build):
    policy = build(is_lora=True, lora_rank=2)
    names = {n for n, p in policy.named_parameters() if p.requires_grad}
    assert all(".lora_" in n or n.startswith("actor.value_head.") for n in names)
    assert any("lm_head.lora_A" in n for n in names)
    inputs = prepared(policy, 2)
    out = policy.act(inputs, keys(2))
    again = policy.evaluate(as_tensors(inputs), out.replay)
    torch.testing.assert_close(again.logprobs, out.logprobs, atol=TOLERANCE, rtol=0)
    again.logprobs.sum().backward()
    assert all(p.grad is not None for p in policy.parameter_groups()["policy"])


def test_cross_entropy_is_that_of_the_demonstrated_tokens(build):
    """Per sample: the mean over steps within the demonstration of -log p at temperature 1, where
    a token is scored after the demonstrated ones before it."""
    policy = build(num_action_chunks=3, temperature=1.6, top_k=5)
    demo = fake_demonstration(fake_env(), 9)
    policy.fit_normalizer([demo])
    inputs, actions, mask = policy.sft_batch(demo, [0, 4])  # frames before steps 0 and 8 of 9
    assert mask.tolist() == [[True, True, True], [True, False, False]]
    tensors = as_tensors(inputs)
    losses = policy.sft_loss(tensors, torch.from_numpy(actions), torch.from_numpy(mask), keys(2))
    tokens = torch.from_numpy(policy.processor.to_indices(actions)).flatten(1)
    with torch.no_grad():
        logits = policy.actor.read(policy.actor_inputs(tensors), tokens).logits
    for row, steps in enumerate((3, 1)):
        terms = []
        for n in range(4 * steps):
            p = torch.softmax(logits[row, n].double(), dim=0)
            terms.append(-p[tokens[row, n]].log().item())
        assert losses[row].item() == pytest.approx(np.mean(terms), abs=1e-4)


def test_another_temperature_for_a_while(build):
    """At a very low one the most likely tokens are drawn; then the settings' temperature again."""
    policy = build(temperature=1.6)
    inputs = prepared(policy, 5)
    greedy = policy.act(inputs, keys(5), deterministic=True)
    drawn = policy.act(inputs, keys(5))
    assert (drawn.actions != greedy.actions).any()
    policy.set_temperature(1e-6)
    np.testing.assert_array_equal(policy.act(inputs, keys(5)).actions, greedy.actions)
    policy.set_temperature(None)
    again = policy.act(inputs, keys(5))
    np.testing.assert_array_equal(again.actions, drawn.actions)
    assert torch.equal(again.logprobs, drawn.logprobs)


def test_without_statistics_tokens_span_the_range_of_the_env(build):
    """The centres of the lowest and the highest of 255 bins are 1/255 from the ends of [-1, 1], so
    of [0, 512] they are 256 (1 - 254/255) and 256 (1 + 254/255)."""
    wide = replace(fake_env(), actions=(ActionChannel("joint_position", 4, 0.0, 512.0),))
    executed = build(env=wide).processor.to_env_actions(np.array([[[255] * 4, [0] * 4]]))
    np.testing.assert_allclose(executed[0, :, 0], [256 / 255, 256 * 509 / 255], rtol=1e-6)
