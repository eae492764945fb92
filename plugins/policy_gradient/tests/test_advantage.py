"""Advantages against numbers worked by hand and a step-by-step loop."""

import itertools

import numpy as np
import pytest
import torch
from rlcore_policy_gradient.advantage import (
    Steps,
    gae,
    gae_of_steps,
    normalized,
    normalized_per_task,
    steps,
)


def column(*, rewards, values, terminated=(), truncated=(), invalid=(), bootstrap=None):
    """Steps of one column from lists; `bootstrap` is `{step: value}`."""
    length = len(rewards)
    flags = [torch.zeros(length, 1, dtype=torch.bool) for _ in range(3)]
    for flag, places in zip(flags, (terminated, truncated, invalid), strict=True):
        for t in places:
            flag[t] = True
    after = torch.zeros(length, 1)
    for t, value in (bootstrap or {}).items():
        after[t] = value
    return Steps(
        rewards=torch.tensor(rewards)[:, None].float(),
        values=torch.tensor(values)[:, None].float(),
        bootstrap=after,
        valid=~flags[2],
        terminated=flags[0],
        truncated=flags[1],
    )


def advantages(sequence, bootstrap_type="none"):
    """gamma 1/2, lambda 1/2, so that every number is a dyadic fraction."""
    return gae_of_steps(sequence, gamma=0.5, gae_lambda=0.5, bootstrap_type=bootstrap_type)[
        :, 0
    ].tolist()


def test_termination_by_hand():
    # d2 = 4 + 0 - 2         = 2            A2 = 2
    # d1 = 0 + 1/2 * 2 - 1   = 0            A1 = 0 + 1/4 * 2 = 0.5
    # d0 = 1 + 1/2 * 1 - 2   = -0.5         A0 = -0.5 + 1/4 * 0.5 = -0.375
    sequence = column(rewards=[1, 0, 4], values=[2, 1, 2], terminated=[2], bootstrap={2: 100})
    assert advantages(sequence) == [-0.375, 0.5, 2.0]
    assert advantages(sequence, "standard") == [-0.375, 0.5, 2.0]


def test_truncation_by_hand():
    sequence = column(rewards=[0, 1], values=[1, 1], truncated=[1], bootstrap={1: 4})
    # none:      d1 = 1 - 1 = 0, A1 = 0;     d0 = 0 + 0.5 - 1 = -0.5, A0 = -0.5
    assert advantages(sequence, "none") == [-0.5, 0.0]
    # standard:  d1 = 1 + 2 - 1 = 2, A1 = 2; A0 = -0.5 + 1/4 * 2 = 0
    assert advantages(sequence, "standard") == [0.0, 2.0]
    assert advantages(sequence, "always") == [0.0, 2.0]


def test_always_bootstraps_a_termination_too():
    sequence = column(rewards=[1], values=[1], terminated=[0], bootstrap={0: 4})
    assert advantages(sequence, "standard") == [0.0]  # 1 - 1
    assert advantages(sequence, "always") == [2.0]  # 1 + 1/2 * 4 - 1


def test_a_step_that_terminates_and_times_out_is_terminal():
    sequence = column(rewards=[1], values=[1], terminated=[0], truncated=[0], bootstrap={0: 4})
    assert advantages(sequence, "standard") == [0.0]


def test_column_cut_without_an_end_always_bootstraps():
    sequence = column(rewards=[1], values=[1], bootstrap={0: 4})
    for bootstrap_type in ("none", "standard", "always"):
        assert advantages(sequence, bootstrap_type) == [2.0]


def test_invalid_steps_are_passed_over_and_ends_cut_the_recursion():
    # steps 1 and 2 were not executed; the episode of step 3 knows nothing of step 0
    # A3 = 8 - 4 + 0 = 4 (terminated);  A0 = 1 - 2 = -1 (terminated)
    sequence = column(rewards=[1, 9, 9, 8], values=[2, 9, 9, 4], terminated=[0, 3], invalid=[1, 2])
    assert advantages(sequence) == [-1.0, 0.0, 0.0, 4.0]
    # without an end at step 0 its next step is step 3:
    # d0 = 1 + 1/2 * 4 - 2 = 1, A0 = 1 + 1/4 * 4 = 2
    sequence = column(rewards=[1, 9, 9, 8], values=[2, 9, 9, 4], terminated=[3], invalid=[1, 2])
    assert advantages(sequence) == [2.0, 0.0, 0.0, 4.0]


def brute_force(trajectory, *, reward_type, gamma, lam, bootstrap_type):
    """Walk each column forward into episodes of steps; sum the deltas of each step outright:
    A_t = sum_k (gamma lambda)^k delta_{t+k} up to the end of the episode."""
    T, N, C, _ = trajectory.shape
    array = {
        name: getattr(trajectory, name).numpy()
        for name in ("rewards", "valid", "terminated", "truncated", "values", "bootstrap_values")
    }
    width = 1 if reward_type == "chunk_level" else C
    result = np.zeros((T, N, width))
    for n in range(N):
        sequence = []  # (place, reward, value, terminated, truncated, bootstrap)
        for t in range(T):
            actions = [c for c in range(C) if array["valid"][t, n, c]]
            parts = [actions] if reward_type == "chunk_level" else [[c] for c in actions]
            for part in parts:
                if part:
                    d = 0 if reward_type == "chunk_level" else part[0]
                    sequence.append(
                        (
                            (t, n, d),
                            sum(array["rewards"][t, n, c] for c in part),
                            array["values"][t, n, d],
                            any(array["terminated"][t, n, c] for c in part),
                            any(array["truncated"][t, n, c] for c in part),
                            array["bootstrap_values"][t, n, 0],
                        )
                    )
        deltas = []
        for i, (_, reward, value, terminated, truncated, after) in enumerate(sequence):
            if terminated:
                follow = after if bootstrap_type == "always" else 0.0
            elif truncated:
                follow = 0.0 if bootstrap_type == "none" else after
            elif i + 1 < len(sequence):
                follow = sequence[i + 1][2]
            else:
                follow = after
            deltas.append(reward + gamma * follow - value)
        for i in range(len(sequence)):
            total, factor = 0.0, 1.0
            for j in range(i, len(sequence)):
                total += factor * deltas[j]
                factor *= gamma * lam
                if sequence[j][3] or sequence[j][4]:
                    break
            result[sequence[i][0]] = total
    return result


@pytest.mark.parametrize(
    "reward_type, bootstrap_type, auto_reset",
    list(
        itertools.product(
            ("chunk_level", "action_level"), ("none", "standard", "always"), (False, True)
        )
    ),
)
def test_gae_against_a_loop(play, reward_type, bootstrap_type, auto_reset):
    width = 1 if reward_type == "chunk_level" else 3
    trajectory = play(chunks=9, columns=12, value_width=width, auto_reset=auto_reset, seed=3)
    ends = trajectory.ended & trajectory.valid
    assert ends[..., :-1].any() and trajectory.truncated.any()  # the case is really in it
    assert not auto_reset or int(trajectory.episode.max()) > 1
    expected = brute_force(
        trajectory, reward_type=reward_type, gamma=0.9, lam=0.8, bootstrap_type=bootstrap_type
    )
    result = gae(
        trajectory,
        reward_type=reward_type,
        gamma=0.9,
        gae_lambda=0.8,
        bootstrap_type=bootstrap_type,
        normalize=False,
    )
    np.testing.assert_allclose(result.advantages.numpy(), expected, atol=1e-5)
    # R = A + V where valid, 0 elsewhere
    counted = trajectory.valid.any(-1, keepdim=True) if width == 1 else trajectory.valid
    targets = np.where(counted.numpy(), expected + trajectory.values.numpy(), 0)
    np.testing.assert_allclose(result.returns.numpy(), targets, atol=1e-5)
    assert torch.equal(result.valid, trajectory.valid)


def test_chunk_level_sums_rewards_over_valid_actions_only(play):
    trajectory = play(chunks=1, columns=1)
    trajectory.rewards[0, 0] = torch.tensor([1.0, 2.0, 64.0])
    trajectory.valid[0, 0] = torch.tensor([True, True, False])
    trajectory.terminated[0, 0] = torch.tensor([False, True, False])
    assert steps(trajectory, "chunk_level").rewards.tolist() == [[3.0]]


def test_normalisation_by_hand():
    # valid: 1, 3, 5, 7: mean 4, variance (9 + 1 + 1 + 9) / 3 = 20 / 3
    x = torch.tensor([1.0, 3.0, 99.0, 5.0, 7.0])
    valid = torch.tensor([True, True, False, True, True])
    expected = [-3, -1, 0, 1, 3] / (np.sqrt(20 / 3) + 1e-5)
    np.testing.assert_allclose(normalized(x, valid).numpy(), expected, rtol=1e-6)
    assert normalized(x, torch.zeros(5, dtype=torch.bool)).tolist() == [0.0] * 5
    assert normalized(x, x == 7).tolist() == [0.0] * 5  # one sample


def test_normalising_leaves_the_targets_alone(play):
    settings = {
        "reward_type": "chunk_level",
        "gamma": 0.9,
        "gae_lambda": 0.8,
        "bootstrap_type": "none",
    }
    trajectory = play()
    plain = gae(trajectory, normalize=False, **settings)
    scaled = gae(trajectory, normalize=True, **settings)
    assert torch.equal(plain.returns, scaled.returns)
    chosen = scaled.advantages[trajectory.valid.any(-1)]
    assert float(chosen.mean()) == pytest.approx(0, abs=1e-6)
    assert float(chosen.std(correction=1)) == pytest.approx(1, rel=1e-4)


def test_normalisation_among_the_steps_of_a_task():
    """By hand: task 0 has 1 and 3 (mean 2, std sqrt 2), task 1 has 10, 10 and 40 (mean 20, std
    sqrt 300), task 2 has one step, which gives 0; the last step is invalid."""
    advantages = torch.tensor([[1.0, 10.0, 40.0, 7.0], [3.0, 10.0, 99.0, 99.0]])[..., None]
    valid = torch.tensor([[True, True, True, True], [True, True, False, False]])[..., None]
    task = torch.tensor([[0, 1, 1, 2], [0, 1, 1, 2]])
    scaled = normalized_per_task(advantages, valid, task)[..., 0]
    a, b = 0.5**0.5, 10 / 300**0.5
    expected = torch.tensor([[-a, -b, 2 * b, 0.0], [a, -b, 0.0, 0.0]])
    torch.testing.assert_close(scaled, expected, rtol=0, atol=2e-5)  # 1e-5 is added to each std
