"""Deciding and scoring agree, row by row, for every way to explore and every critic."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from originals import euler
from rlcore_flow.actor import (
    DETERMINISTIC,
    FlowActor,
    FlowSample,
    RolloutNoise,
    Score,
)
from rlcore_flow.adapt import set_precision
from rlcore_flow.denoising import FlowConfig
from rlcore_flow.heads import CriticConfig
from rlcore_model_openpi.network.pi0 import PiNetwork, PrefixInputs
from rlcore_model_openpi.sizes import SIZES
from torch import Tensor

SIZE = replace(SIZES["tiny"], image_size=16, action_dim=4, action_horizon=6, max_token_len=5)
ROWS, STEPS, LEVEL = 4, 3, 0.7

FLOWS = {
    "sde": FlowConfig(STEPS, "flow_sde"),
    "sde_joint": FlowConfig(STEPS, "flow_sde", joint_logprob=True),
    "sde_ignore_last": FlowConfig(STEPS, "flow_sde", ignore_last=True),
    "noise": FlowConfig(STEPS, "flow_noise"),
    "noise_joint": FlowConfig(STEPS, "flow_noise", joint_logprob=True),
    "cps": FlowConfig(STEPS, "flow_cps"),
    "cps_joint": FlowConfig(STEPS, "flow_cps", joint_logprob=True),
    "ode": FlowConfig(STEPS, "flow_ode"),
}
CRITICS = {
    "expert": CriticConfig(hidden=(16, 8)),
    "detach_elapsed": CriticConfig(detach_input=True, elapsed=True, hidden=(16, 8)),
    "vlm_mean": CriticConfig(after_vlm=True, hidden=(16, 8)),
    "vlm_last_elapsed": CriticConfig(
        after_vlm=True, vlm_mode="last_token", elapsed=True, hidden=(16, 8)
    ),
}


def make_actor(
    flow: FlowConfig, critic: CriticConfig | None = None, *, pi05: bool = False
) -> FlowActor:
    torch.manual_seed(0)
    actor = FlowActor(PiNetwork(replace(SIZE, pi05=pi05)), flow, critic)
    with torch.no_grad():  # open the gates of π0.5, and give critics something to say
        for parameter in actor.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return actor


class Batch:
    """Inputs and noise of some rows."""

    def __init__(self, index_choices: int = STEPS) -> None:
        generator = torch.Generator().manual_seed(1)
        chunk = (SIZE.action_horizon, SIZE.action_dim)
        self.inputs = PrefixInputs(
            images=torch.rand(ROWS, 1, 3, 16, 16, generator=generator) * 2 - 1,
            image_masks=torch.ones(ROWS, 1, dtype=torch.bool),
            tokens=torch.randint(0, 512, (ROWS, 5), generator=generator),
            token_mask=torch.arange(5) < torch.tensor([[2], [3], [5], [4]]),
        )
        self.state = torch.randn(ROWS, SIZE.action_dim, generator=generator)
        self.elapsed = torch.rand(ROWS, generator=generator)
        self.noise = RolloutNoise(
            initial=torch.randn(ROWS, *chunk, generator=generator),
            step=torch.randn(ROWS, STEPS, *chunk, generator=generator),
            denoise_index=torch.randint(0, index_choices, (ROWS,), generator=generator),
        )

    @torch.no_grad()
    def rollout(self, actor: FlowActor, *, deterministic: bool = False) -> FlowSample:
        return actor.rollout(
            self.inputs,
            self.state,
            self.noise,
            noise_level=LEVEL,
            deterministic=deterministic,
            elapsed=self.elapsed,
        )

    def recompute(self, actor: FlowActor, chain: Tensor, index: Tensor) -> Score:
        return actor.recompute(
            self.inputs, self.state, chain, index, noise_level=LEVEL, elapsed=self.elapsed
        )

    def rows(self, rows: list[int]) -> Batch:
        """The batch of these rows alone."""
        part = Batch.__new__(Batch)
        part.inputs = PrefixInputs(*(value[rows] for value in vars(self.inputs).values()))
        part.noise = RolloutNoise(*(value[rows] for value in vars(self.noise).values()))
        part.state, part.elapsed = self.state[rows], self.elapsed[rows]
        return part


def near(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("flow", FLOWS)
def test_recompute_agrees_with_rollout(flow: str, deterministic: bool) -> None:
    for number, critic in enumerate(CRITICS.values()):
        actor = make_actor(FLOWS[flow], critic, pi05=number % 2 == 1)
        batch = Batch(actor.flow.index_choices)
        sample = batch.rollout(actor, deterministic=deterministic)
        score = batch.recompute(actor, sample.chain, sample.denoise_index)
        near(score.logprobs, sample.logprobs)
        near(score.values, sample.values)
        near(score.entropy, sample.entropy)
        assert sample.values.shape == (ROWS, 1)
        assert sample.values.std() > 1e-4  # rows differ


@pytest.mark.parametrize("flow", ["sde", "noise_joint", "cps"])
def test_a_row_does_not_depend_on_its_batch(flow: str) -> None:
    actor = make_actor(FLOWS[flow], CRITICS["expert"])
    batch = Batch()
    whole, part = batch.rollout(actor), batch.rows([2, 0]).rollout(actor)
    for name in ("actions", "chain", "logprobs", "values"):
        near(getattr(part, name), getattr(whole, name)[[2, 0]])


def test_only_the_drawn_step_is_stochastic() -> None:
    """The chain leaves the deterministic one after step i, and the log-prob is step i's."""
    actor = make_actor(FLOWS["sde"])
    batch = Batch()
    batch.noise.denoise_index = torch.tensor([0, 1, 2, 1])
    sample, plain = batch.rollout(actor), batch.rollout(actor, deterministic=True)
    for row, index in enumerate([0, 1, 2, 1]):
        near(sample.chain[row, : index + 1], plain.chain[row, : index + 1])
        assert not torch.allclose(sample.chain[row, index + 1], plain.chain[row, index + 1])
    # a Gaussian's log-prob at mean + std eps: -log std - log(2 pi)/2 - eps^2/2, with
    # std = a sqrt(t/(1-t~) d): t = 1, 2/3, 1/3, t~ = 2/3 for t = 1, d = 1/3
    for row, index in enumerate([0, 1, 2, 1]):
        t = 1 - index / 3
        std = LEVEL * math.sqrt(t / (1 - (2 / 3 if index == 0 else t)) / 3)
        eps = batch.noise.step[row, index]
        expected = -math.log(std) - 0.5 * math.log(2 * math.pi) - 0.5 * eps**2
        torch.testing.assert_close(sample.logprobs[row], expected, rtol=0, atol=1e-4)


def test_deterministic_draws_nothing() -> None:
    actor = make_actor(FLOWS["sde_joint"], CRITICS["expert"])
    batch = Batch()
    sample = batch.rollout(actor, deterministic=True)
    assert torch.count_nonzero(sample.logprobs) == 0
    assert sample.denoise_index.tolist() == [DETERMINISTIC] * ROWS
    torch.testing.assert_close(
        sample.actions,
        euler(actor.network, batch.inputs, batch.state, batch.noise.initial, num_steps=STEPS),
    )


def test_joint_logprob_averages_all_steps_and_the_initial_noise() -> None:
    """With flow_noise the log-prob of a step is -log std - log(2 pi)/2 - eps^2/2."""
    actor = make_actor(FLOWS["noise_joint"])
    batch = Batch()
    sample = batch.rollout(actor)
    noise, half_log = batch.noise, 0.5 * math.log(2 * math.pi)
    total = -half_log - 0.5 * noise.initial**2
    entropies = torch.full_like(total, 0.5 + half_log)
    with torch.no_grad():
        cache = actor.network.encode_prefix(batch.inputs, batch.state)
        for number in range(STEPS):
            time = torch.full((ROWS,), 1 - number / STEPS)
            features = actor.network.suffix_features(
                cache, batch.state, sample.chain[:, number], time
            )
            assert actor.noise_head is not None
            std = actor.noise_head(features)
            total += -std.log() - half_log - 0.5 * noise.step[:, number] ** 2
            entropies += 0.5 + half_log + std.log()
    torch.testing.assert_close(sample.logprobs, total / (STEPS + 1), rtol=0, atol=1e-4)
    torch.testing.assert_close(sample.entropy, entropies / (STEPS + 1), rtol=0, atol=1e-4)


def test_entropy_only_where_the_std_is_learnt() -> None:
    batch = Batch()
    assert torch.count_nonzero(batch.rollout(make_actor(FLOWS["sde"])).entropy) == 0
    assert torch.count_nonzero(batch.rollout(make_actor(FLOWS["noise"])).entropy) > 0


def test_values_without_a_critic_are_empty() -> None:
    assert Batch().rollout(make_actor(FLOWS["sde"])).values.shape == (ROWS, 0)


@pytest.mark.parametrize("detach", [False, True])
def test_detach_keeps_the_value_loss_out_of_the_network(detach: bool) -> None:
    actor = make_actor(FLOWS["sde"], CriticConfig(detach_input=detach, hidden=(8,)))
    batch = Batch()
    sample = batch.rollout(actor)
    score = batch.recompute(actor, sample.chain, sample.denoise_index)
    score.values.sum().backward()
    reached = any(parameter.grad is not None for parameter in actor.network.parameters())
    assert reached is not detach
    assert actor.value_head is not None
    assert all(parameter.grad is not None for parameter in actor.value_head.parameters())


def test_log_prob_gradients_are_right() -> None:
    """For the bias c of the velocity: d logp / dc = (x - mean) / std^2 * d mean / dv."""
    actor = make_actor(FLOWS["sde"])
    batch = Batch()
    sample = batch.rollout(actor)
    score = batch.recompute(actor, sample.chain, sample.denoise_index)
    (gradient,) = torch.autograd.grad(score.logprobs.sum(), [actor.network.action_out_proj.bias])
    expected = torch.zeros(SIZE.action_dim)
    for row, index in enumerate(sample.denoise_index.tolist()):
        t, d = 1 - index / 3, 1 / 3
        s2 = LEVEL**2 * t / (1 - (2 / 3 if index == 0 else t))
        std = math.sqrt(s2 * d)
        # mean = (x - v t)(1 - (t - d)) + (x + v (1 - t)) w, w = t - d - s^2 d / (2t)
        slope = -t * (1 - (t - d)) + (1 - t) * (t - d - s2 * d / (2 * t))
        expected += (batch.noise.step[row, index] / std * slope).sum(dim=0)
    torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("pi05", [False, True])
def test_bf16(pi05: bool) -> None:
    """Runs, agrees with itself, and stays near fp32."""
    exact = make_actor(FLOWS["sde"], CRITICS["vlm_mean"], pi05=pi05)
    actor = make_actor(FLOWS["sde"], CRITICS["vlm_mean"], pi05=pi05)
    set_precision(actor.network, "bf16")
    batch = Batch()
    sample = batch.rollout(actor)
    assert sample.actions.dtype == sample.values.dtype == torch.float32
    score = batch.recompute(actor, sample.chain, sample.denoise_index)
    torch.testing.assert_close(score.logprobs, sample.logprobs, rtol=0, atol=1e-4)
    reference = batch.rollout(exact).actions
    assert (sample.actions - reference).abs().max() < 0.05 * reference.abs().max()
