"""Treat denoising steps as Gaussians, so that a flow policy explores and has log-probs.

All functions are pure and take the network's velocity as a tensor. A decision takes K steps from
noise x_0 to actions x_K, a chain of K+1 points. Step i goes from time t_i = 1 - i/K to t_i - d,
with d = 1/K. With the velocity v, the estimates of the clean actions and of the noise are

    x0 = x - v t        x1 = x + v (1 - t)

and every kind of step has the mean x0 (1 - (t - d)) + x1 w with its own w and std. The formulas are
those of "πRL: Online RL Fine-tuning for Flow-based VLA Models" (2025) and of RLinf. RLinf draws one
stochastic step per batch; here each row draws its own, so that a row's decision does not depend on
the batch it is in.

Legend: B rows, K steps, H actions, D their entries. An index is int64 `[B]`, the row's step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor


@dataclass(frozen=True)
class FlowConfig:
    """Settings of how a decision is denoised and scored.

    Attributes:
        num_steps: K.
        noise_method: "flow_sde", "flow_noise", "flow_cps" or "flow_ode".
        joint_logprob: all steps are stochastic, and log-probs are averaged over the K steps and
            the initial noise. If false, one step per row is stochastic, and only it counts.
        ignore_last: the last step is never the stochastic one (not with joint_logprob).
    """

    num_steps: int = 10
    noise_method: str = "flow_sde"
    joint_logprob: bool = False
    ignore_last: bool = False

    @property
    def index_choices(self) -> int:
        """The stochastic step of a row is drawn from [0, this).

        The last step of flow_cps has std 0: a row that drew it would not explore, and its log-prob,
        always 0, would have no gradient. So it is never drawn (the reference draws it too).
        """
        last_is_never_drawn = self.ignore_last or self.noise_method == "flow_cps"
        return self.num_steps - 1 if last_is_never_drawn else self.num_steps


def annealed_level(params: Sequence[float], update: int) -> float:
    """Return the noise level after `update` updates: n0 + (n1 - n0) min(update, N) / N.

    Args:
        params: (n0, n1, N).
        update: number of updates so far.
    """
    start, end, updates = params
    return start + (end - start) * min(update, updates) / updates


def timesteps(num_steps: int, device: torch.device | str = "cpu") -> Tensor:
    """Return the times t_0 .. t_K, which are 1, ..., 1/K, 0; fp32 `[K+1]`."""
    steps = torch.linspace(1.0, 1.0 / num_steps, num_steps, device=device)
    return torch.cat([steps, steps.new_zeros(1)])


class DenoisingStep(NamedTuple):
    """The parts of a denoising step that depend on no point of the chain, fp32 `[B]` each.

    Attributes:
        begin, end: times t and t - d.
        weight: w, the weight of x1.
        std: of the noise; for flow_noise the factor of the noise head's, 1 or 0.
    """

    begin: Tensor
    end: Tensor
    weight: Tensor
    std: Tensor


def denoising_steps(
    index: Tensor, *, config: FlowConfig, stochastic: Tensor, noise_level: float | Tensor
) -> list[DenoisingStep]:
    """Return S steps of B rows.

    Args:
        index: int64 `[S, B]`, each row's step i.
        config: number of steps and noise method.
        stochastic: bool `[S, B]` or `[B]`; false: the step is deterministic, with std 0.
        noise_level: a in the formulas, one number or `[B]` (flow_sde, flow_cps).
    """
    times = timesteps(config.num_steps, index.device)
    begin = times[index]
    end = times[index + 1]
    level = torch.as_tensor(noise_level, dtype=times.dtype, device=times.device)
    weight, std = _STEPS[config.noise_method](begin, end, times[1], level)
    weight = torch.where(stochastic, weight, end)
    std = torch.where(stochastic, std, 0.0)
    return [DenoisingStep(*parts) for parts in zip(begin, end, weight, std, strict=True)]


def step_distribution(
    x: Tensor, velocity: Tensor, step: DenoisingStep, learned_std: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return mean and std `[B, H, D]` of the next point of the chain.

    Args:
        x, velocity: `[B, H, D]`, current point and velocity of each row.
        step: each row's step, `[B]`.
        learned_std: `[B, H, D]`, output of the noise head (flow_noise only).
    """
    begin, end, weight, std = (values[:, None, None] for values in step)
    x0 = x - velocity * begin
    x1 = x + velocity * (1 - begin)
    mean = x0 * (1 - end) + x1 * weight
    return mean, std.expand_as(x) if learned_std is None else std * learned_std


# Each function takes (t, t - d, t_1, a) and returns w, the weight of x1, and std; all are `[B]` or
# broadcastable to it.


def _ode(t: Tensor, end: Tensor, second: Tensor, level: Tensor) -> tuple[Tensor, Tensor]:
    # w = t - d;  std = 0
    return end, torch.zeros_like(end)


def _noise(t: Tensor, end: Tensor, second: Tensor, level: Tensor) -> tuple[Tensor, Tensor]:
    # w = t - d;  std = 1 times the noise head's
    return end, torch.ones_like(end)


def _sde(t: Tensor, end: Tensor, second: Tensor, level: Tensor) -> tuple[Tensor, Tensor]:
    # s = a sqrt(t / (1 - t)), with t_1 for t = 1 in the denominator
    # w = t - d - s^2 d / (2t);  std = s sqrt(d)
    d = t - end
    s = level * torch.sqrt(t / (1 - torch.where(t == 1, second, t)))
    return end - s**2 * d / (2 * t), s * torch.sqrt(d)


def _cps(t: Tensor, end: Tensor, second: Tensor, level: Tensor) -> tuple[Tensor, Tensor]:
    # w = (t - d) cos(pi a / 2);  std = (t - d) sin(pi a / 2)
    angle = math.pi * level / 2
    return end * torch.cos(angle), end * torch.sin(angle)


_STEPS: dict[str, Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]] = {
    "flow_ode": _ode,
    "flow_noise": _noise,
    "flow_sde": _sde,
    "flow_cps": _cps,
}


def log_prob(sample: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """Return the elementwise Gaussian log-density, 0 where std is 0.

    log N = -log std - log(2 pi) / 2 - ((x - mean) / std)^2 / 2
    """
    certain = std == 0
    std = torch.where(certain, 1.0, std)
    density = -torch.log(std) - 0.5 * math.log(2 * math.pi) - 0.5 * ((sample - mean) / std) ** 2
    return torch.where(certain, 0.0, density)


def entropy(std: Tensor) -> Tensor:
    """Return the elementwise Gaussian entropy, log(2 pi e std^2) / 2; 0 where std is 0."""
    certain = std == 0
    std = torch.where(certain, 1.0, std)
    return torch.where(certain, 0.0, 0.5 * torch.log(2 * math.pi * math.e * std**2))
