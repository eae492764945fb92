"""Step distributions, worked by hand with K = 4 steps of d = 1/4."""

from __future__ import annotations

import math

import pytest
import torch
from rlcore_flow.denoising import (
    FlowConfig,
    annealed_level,
    denoising_steps,
    entropy,
    log_prob,
    step_distribution,
    timesteps,
)
from torch import Tensor

LEVEL = 0.5


def step(
    method: str,
    index: list[int],
    stochastic: list[bool] | None = None,
    *,
    num_steps: int = 4,
    noise_level: float | Tensor = LEVEL,
    velocity: Tensor | None = None,
    learned_std: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """A step from x = 2 with v = 3 in every entry, `[B, 1, 1]`."""
    rows = len(index)
    (only,) = denoising_steps(
        torch.tensor([index]),
        config=FlowConfig(num_steps=num_steps, noise_method=method),
        stochastic=torch.tensor([True] * rows if stochastic is None else stochastic),
        noise_level=noise_level,
    )
    velocity = torch.full((rows, 1, 1), 3.0) if velocity is None else velocity
    return step_distribution(torch.full((rows, 1, 1), 2.0), velocity, only, learned_std)


def close(values: Tensor, expected: list[float]) -> None:
    assert values.flatten().tolist() == pytest.approx(expected, abs=1e-6)


def test_timesteps() -> None:
    close(timesteps(4), [1.0, 0.75, 0.5, 0.25, 0.0])
    close(timesteps(1), [1.0, 0.0])


def test_ode_is_an_euler_step() -> None:
    # x - v d = 2 - 3/4, at every t
    mean, std = step("flow_ode", [0, 1, 2, 3])
    close(mean, [1.25] * 4)
    close(std, [0.0] * 4)


def test_sde() -> None:
    # i=0: t=1, denominator at t_1=.75: s = .5 sqrt(1/.25) = 1; std = 1 sqrt(.25) = .5
    #      x0 = 2-3 = -1, x1 = 2; w = .75 - 1*.25/2 = .625; mean = -1*.25 + 2*.625 = 1
    # i=1: t=.75: s^2 = .25*.75/.25 = .75; std = sqrt(.75*.25) = .4330127
    #      x0 = 2-2.25 = -.25, x1 = 2.75; w = .5 - .75*.25/1.5 = .375
    #      mean = -.25*.5 + 2.75*.375 = .90625
    # i=3: t=.25: s^2 = .25*.25/.75 = 1/12; std = sqrt(1/48) = .1443376
    #      x0 = 2-.75 = 1.25, x1 = 4.25; w = 0 - (1/12)*.25/.5 = -1/24
    #      mean = 1.25 - 4.25/24 = 1.0729167
    mean, std = step("flow_sde", [0, 1, 3])
    close(mean, [1.0, 0.90625, 1.0729167])
    close(std, [0.5, 0.4330127, 0.1443376])


def test_sde_with_one_step() -> None:
    # K = 1: t = 1, d = 1, denominator 1 - t_1 = 1: s = a, std = a; w = 0 - a^2/2 = -.125
    # x0 = -1, x1 = 2: mean = -1 - .25 = -1.25
    mean, std = step("flow_sde", [0], num_steps=1)
    close(mean, [-1.25])
    close(std, [0.5])


def test_cps() -> None:
    # cos = sin = sqrt(.5) at a = .5
    # i=1: x0 = -.25, x1 = 2.75, t-d = .5: mean = -.125 + 2.75*.5*.7071068 = .8472718
    #      std = .5*.7071068
    # i=3: t-d = 0: mean = x0 = 1.25, std = 0
    mean, std = step("flow_cps", [1, 3])
    close(mean, [0.8472718, 1.25])
    close(std, [0.3535534, 0.0])


def test_noise_takes_its_std_from_the_head() -> None:
    mean, std = step("flow_noise", [0, 2], learned_std=torch.tensor([0.1, 0.15]).view(2, 1, 1))
    close(mean, [1.25, 1.25])
    close(std, [0.1, 0.15])


@pytest.mark.parametrize("method", ["flow_sde", "flow_cps", "flow_noise"])
def test_rows_are_stochastic_one_by_one(method: str) -> None:
    learned = torch.full((2, 1, 1), 0.1) if method == "flow_noise" else None
    mean, std = step(method, [1, 1], [True, False], learned_std=learned)
    plain, _ = step("flow_ode", [1])
    assert mean[1] == plain[0]
    assert std[0] > 0
    assert std[1] == 0


def test_noise_level_per_row() -> None:
    mean, std = step("flow_sde", [0, 0], noise_level=torch.tensor([0.5, 0.0]))
    close(mean, [1.0, 1.25])
    close(std, [0.5, 0.0])


def test_steps_of_one_call_are_those_of_many() -> None:
    numbers = torch.tensor([[0, 0], [1, 1], [2, 2], [3, 3]])
    config = FlowConfig(num_steps=4)
    stochastic = numbers == torch.tensor([1, 3])
    steps = denoising_steps(numbers, config=config, stochastic=stochastic, noise_level=LEVEL)
    assert len(steps) == 4
    for index, chosen, found in zip(numbers, stochastic, steps, strict=True):
        (alone,) = denoising_steps(index[None], config=config, stochastic=chosen, noise_level=LEVEL)
        assert all(map(torch.equal, found, alone))


def test_log_prob() -> None:
    # N(1.5; 1, .5): -log .5 - log(2 pi)/2 - .5 = .6931472 - .9189385 - .5 = -.7257914
    sample, mean = torch.tensor([1.5, 9.0]), torch.tensor([1.0, 1.0])
    std = torch.tensor([0.5, 0.0])
    close(log_prob(sample, mean, std), [-0.7257914, 0.0])


def test_log_prob_has_finite_gradients_where_std_is_zero() -> None:
    mean = torch.tensor([1.0, 1.0], requires_grad=True)
    log_prob(torch.tensor([1.5, 9.0]), mean, torch.tensor([0.5, 0.0])).sum().backward()
    assert mean.grad is not None
    close(mean.grad, [2.0, 0.0])  # (x - mean) / std^2


def test_entropy() -> None:
    # log(2 pi e .01) / 2 = (1.8378771 + 1 - 4.6051702) / 2
    close(entropy(torch.tensor([0.1, 0.0])), [-0.8836466, 0.0])
    assert entropy(torch.tensor(1.0)).item() == pytest.approx(0.5 * math.log(2 * math.pi * math.e))


def test_annealing() -> None:
    # .7 to .3 over 400 updates: half way .5, then flat
    levels = [annealed_level([0.7, 0.3, 400], update) for update in (0, 200, 400, 1000)]
    assert levels == pytest.approx([0.7, 0.5, 0.3, 0.3])


def test_ignore_last_leaves_out_one_choice() -> None:
    assert FlowConfig(num_steps=4).index_choices == 4
    assert FlowConfig(num_steps=4, ignore_last=True).index_choices == 3


def test_the_step_of_cps_without_noise_is_never_drawn() -> None:
    # end times .75, .5, .25, 0: std = end * sin(pi / 4) = .5303301, .3535534, .1767767, 0
    _, std = step("flow_cps", [0, 1, 2, 3])
    close(std, [0.5303301, 0.3535534, 0.1767767, 0.0])
    assert FlowConfig(num_steps=4, noise_method="flow_cps").index_choices == 3
    assert FlowConfig(num_steps=4, noise_method="flow_cps", ignore_last=True).index_choices == 3


def test_a_row_that_drew_a_step_of_cps_has_a_gradient() -> None:
    """d log N / d mean = (x - mean) / std^2, and d mean / d v = -t (1 - end) + (1 - t) w."""
    for index in range(FlowConfig(num_steps=4, noise_method="flow_cps").index_choices):
        velocity = torch.full((1, 1, 1), 3.0, requires_grad=True)
        mean, std = step("flow_cps", [index], velocity=velocity)
        log_prob(mean.detach() + std, mean, std).sum().backward()
        t, end = 1 - index / 4, 0.75 - index / 4
        slope = -t * (1 - end) + (1 - t) * end * math.sqrt(0.5)
        assert velocity.grad is not None and slope != 0
        close(velocity.grad, [slope / (end * math.sqrt(0.5))])  # x - mean is one std
