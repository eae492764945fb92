"""The Gaussian policy's numbers by hand, and what it refuses."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from rlcore_model_gaussian.policy import UNSQUASHED, make
from rlcore_model_gaussian.settings import WORDS, GaussianConfig, policy_spec
from rlcore_testing.conformance.fake_env import fake_demonstration, fake_env, fake_observation
from torch.distributions import Normal, TransformedDistribution
from torch.distributions.transforms import TanhTransform

from rlcore.contracts.errors import CheckpointError, ConfigError
from rlcore.contracts.rng import RowKeys
from rlcore.contracts.specs import ActionChannel

# one action entry from 0 to 4: middle 2, half 2
ENV = replace(
    fake_env(state=2, action=1, cameras=0),
    actions=(ActionChannel("ee_delta_position", 1, 0.0, 4.0),),
)
HALF = math.log(3.0) / 2  # tanh of it is 0.5
KEYS = RowKeys(((0,), (1,)))


def build(env=ENV, **settings):
    """Return a policy whose mean before squashing is HALF everywhere."""
    sizes = {"hidden": [8], "features": 8, "num_action_chunks": 2, "add_value_head": False}
    policy = make(GaussianConfig(**{**sizes, **settings}), env_spec=env)
    with torch.no_grad():
        entries = policy.head[-1].out_features // 2
        policy.head[-1].bias[:entries] = HALF
    return policy


def observed(policy, env=ENV):
    inputs = policy.prepare(fake_observation(env, 2))
    return inputs, {name: torch.from_numpy(array) for name, array in inputs.items()}


@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize("elapsed", [True, False])
@pytest.mark.parametrize(("cameras", "state"), [(0, 2), (1, 0), (2, 5)])
@pytest.mark.parametrize("side", [4, 20, 64, 100])
def test_the_spec_counts_the_parameters(value, elapsed, cameras, state, side):
    env = fake_env(cameras=cameras, state=state)
    sized = tuple(replace(camera, height=side, width=side + 7) for camera in env.cameras)
    env = replace(env, cameras=sized)
    settings = {"add_value_head": value, "critic_elapsed": elapsed, "num_images_in_input": 2}
    config = GaussianConfig(hidden=[8, 6], features=5, num_action_chunks=3, **settings)
    count = sum(parameter.numel() for parameter in make(config, env_spec=env).parameters())
    spec = policy_spec(config, env)
    assert spec.parameters == spec.trainable_parameters == count


def test_the_deterministic_action_is_the_squashed_mean():
    policy = build()
    output = policy.act(observed(policy)[0], KEYS, deterministic=True)
    assert output.actions == pytest.approx(np.full((2, 2, 1), 3.0))  # 2 + 2 * 0.5
    assert not output.logprobs.any()


def test_the_density_of_the_mean_by_hand():
    policy = build(init_std=0.5)
    tensors = observed(policy)[1]
    evaluation = policy.evaluate(tensors, {UNSQUASHED: torch.full((2, 2, 1), HALF)})
    expected = -math.log(0.5) - 0.5 * math.log(2 * math.pi) - math.log(1 - 0.25)
    torch.testing.assert_close(evaluation.logprobs, torch.full((2, 2, 1), expected))
    entropy = 0.5 * math.log(2 * math.pi * math.e * 0.25)
    torch.testing.assert_close(evaluation.entropy, torch.full((2, 2, 1), entropy))


def test_the_density_is_that_of_a_tanh_gaussian_and_finite_at_the_ends():
    policy = build(init_std=2.0)
    inputs, tensors = observed(policy)
    output = policy.act(inputs, KEYS)
    squashed = TransformedDistribution(Normal(HALF, 2.0), [TanhTransform(cache_size=1)])
    units = (torch.from_numpy(output.actions) - 2.0) / 2.0
    torch.testing.assert_close(output.logprobs, squashed.log_prob(units), atol=1e-3, rtol=1e-3)
    ends = policy.evaluate(tensors, {UNSQUASHED: torch.tensor([-40.0, 40.0])[:, None, None]})
    assert ends.logprobs.isfinite().all()


def test_the_supervised_loss_is_in_units_of_the_range():
    policy = build()
    tensors = observed(policy)[1]
    actions = torch.tensor([[4.0, 0.0], [3.0, 0.0]])[..., None]
    mask = torch.tensor([[True, True], [True, False]])
    losses = policy.sft_loss(tensors, actions, mask, KEYS)
    # 0.5 against 1 and -1; against 0.5, as the second step is past the end
    torch.testing.assert_close(losses, torch.tensor([(0.25 + 2.25) / 2, 0.0]))


def test_states_are_normalised_by_the_demonstrations():
    policy = build()
    demonstration = fake_demonstration(ENV, 3)
    states = np.array([[0.0, 5.0], [2.0, 5.0], [4.0, 5.0]], np.float32)
    policy.fit_normalizer([replace(demonstration, states=states)])
    observation = fake_observation(ENV, 2)
    observation["states"] = np.array([[2.0, 5.01], [-2.0, 6.0]], np.float32)
    # mean 2 and 5, std sqrt(8/3) and at least 0.01; at most 10 of them
    expected = [[0.0, 1.0], [-4 / math.sqrt(8 / 3), 10.0]]
    assert policy.prepare(observation)["state"] == pytest.approx(np.array(expected), abs=1e-3)


def test_long_instructions_are_cut():
    policy = build()
    observation = fake_observation(ENV, 2)
    observation["task_descriptions"] = ["push " * 40, "Push the button"]
    words = policy.prepare(observation)["words"]
    assert words.shape == (2, WORDS) and (words[0] == words[1, 0]).all()
    assert words[1, 3:].tolist() == [0] * (WORDS - 3) and (words[1, :3] > 0).all()


def test_what_does_not_fit_is_refused(refused, tmp_path):
    with refused(ConfigError, "camera", "state"):
        policy_spec(GaussianConfig(), fake_env(state=0, cameras=0))
    build().save_pretrained(tmp_path)
    with refused(CheckpointError, "wrong shape"):
        build(features=16, model_path=str(tmp_path))
