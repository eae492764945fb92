"""Use the network as an RL actor: sample decisions, and recompute the scores of stored ones.

`rollout` and `recompute` share `_step`, so they agree at equal weights. The value of a decision is
the critic's output at the row's stochastic step, or with joint log-probs the mean over all steps,
in acting and in learning. (RLinf stores the mean over all steps when acting, and compares it with
the value at one step when learning.)

Legend: see denoising.py; V values per decision.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from rlcore_weights.critic import ValueHead
from torch import Tensor, nn

from rlcore_flow import denoising
from rlcore_flow.denoising import DenoisingStep, FlowConfig
from rlcore_flow.heads import CriticConfig, NoiseHead, expert_features
from rlcore_flow.network import FlowNetwork

NetworkT = TypeVar("NetworkT", bound=FlowNetwork)

DETERMINISTIC = -1
"""The `denoise_index` of a decision without a stochastic step."""


@dataclass
class RolloutNoise:
    """All randomness of a batch of decisions, drawn by the caller.

    Attributes:
        initial: standard normal `[B, H, D]`, where the chain starts.
        step: standard normal `[B, K, H, D]`, used where a step is stochastic.
        denoise_index: int64 `[B]` in [0, FlowConfig.index_choices), the stochastic step of each
            row; not used with joint log-probs or deterministically.
    """

    initial: Tensor
    step: Tensor
    denoise_index: Tensor


@dataclass
class Score:
    """Log-probs and entropy `[B, H, D]`, values `[B, V]`; fp32."""

    logprobs: Tensor
    values: Tensor
    entropy: Tensor


@dataclass
class FlowSample(Score):
    """A batch of decisions.

    Attributes:
        actions: `[B, H, D]`, the end of the chain.
        chain: `[B, K+1, H, D]`, from the initial noise to the actions.
        denoise_index: int64 `[B]`, for `recompute`; DETERMINISTIC if nothing was drawn.
    """

    actions: Tensor
    chain: Tensor
    denoise_index: Tensor


class _Step(NamedTuple):
    """One denoising step of B rows.

    Attributes:
        reached: `[B, H, D]`, the point that the step reached.
        mean, std: `[B, H, D]`, of the distribution from which that point was drawn.
        critic_input: input of a critic on the expert at this step, `[B, 0]` without one.
    """

    reached: Tensor
    mean: Tensor
    std: Tensor
    critic_input: Tensor


class FlowActor(nn.Module, Generic[NetworkT]):
    """A network with its RL heads.

    Args:
        network: the network.
        flow: how decisions are denoised and scored.
        critic: what the critic reads; None: no critic, values are `[B, 0]`.
        noise_range: minimum and maximum std of the noise head (flow_noise).
    """

    def __init__(
        self,
        network: NetworkT,
        flow: FlowConfig,
        critic: CriticConfig | None = None,
        noise_range: tuple[float, float] = (0.08, 0.16),
    ) -> None:
        super().__init__()
        self.network = network
        self.flow = flow
        self.critic = critic
        size = network.size
        self.value_head: ValueHead | None = None
        if critic is not None:
            width = size.vlm_width if critic.after_vlm else size.expert_width
            self.value_head = ValueHead(
                width, critic.hidden, outputs=critic.outputs, elapsed=critic.elapsed
            )
        self.noise_head: NoiseHead | None = None
        if flow.noise_method == "flow_noise":
            self.noise_head = NoiseHead(size.expert_width, size.action_dim, noise_range)

    def rollout(
        self,
        inputs: Any,
        state: Tensor,
        noise: RolloutNoise,
        *,
        noise_level: float | Tensor = 0.0,
        deterministic: bool = False,
        elapsed: Tensor | None = None,
    ) -> FlowSample:
        """Sample S decisions for each of B rows, whose prefix is encoded once.

        Args:
            inputs, state: the network's inputs; state `[B, D]`.
            noise: all randomness of S B decisions, sample by sample; deterministic decisions use
                only its initial noise.
            noise_level: of flow_sde and flow_cps, one number or `[S B]`.
            deterministic: no stochastic step; log-probs and entropy are 0, the value is that of
                the first step (with joint log-probs the mean over all steps).
            elapsed: `[B]`, for a critic that reads it.
        """
        cache = self._encode(inputs, state)
        samples = len(noise.initial) // len(state)
        if samples > 1:
            cache = cache.repeated(samples)
            state = state.repeat(samples, 1)
            elapsed = None if elapsed is None else elapsed.repeat(samples)
        index = self._index(noise, deterministic)
        numbers = self._all_steps(index)
        stochastic = index >= 0 if self.flow.joint_logprob else index == numbers
        chain = [noise.initial]
        steps: list[_Step] = []
        for number, step in enumerate(self._denoising(numbers, stochastic, noise_level)):
            mean, std, critic_input = self._step(cache, state, chain[-1], step)
            chain.append(mean + std * noise.step[:, number])
            steps.append(_Step(chain[-1], mean, std, critic_input))
        if not self.flow.joint_logprob:
            steps = [_pick(steps, index.clamp(min=0))]
        score = self._score(cache, steps, noise.initial, index, elapsed)
        return FlowSample(
            **vars(score),
            actions=chain[-1],
            chain=torch.stack(chain, dim=1),
            denoise_index=index,
        )

    def recompute(
        self,
        inputs: Any,
        state: Tensor,
        chain: Tensor,
        denoise_index: Tensor,
        *,
        noise_level: float | Tensor = 0.0,
        elapsed: Tensor | None = None,
    ) -> Score:
        """Compute the scores of stored decisions under the current weights, with gradients.

        Args:
            inputs, state, elapsed: as for :meth:`rollout`.
            chain, denoise_index: `[B, K+1, H, D]` and `[B]`, from the result of :meth:`rollout`.
            noise_level: the one that :meth:`rollout` was called with.
        """
        cache = self._encode(inputs, state)
        if self.flow.joint_logprob:
            indices = self._all_steps(denoise_index)
        else:
            indices = denoise_index.clamp(min=0)[None]
        schedule = self._denoising(indices, denoise_index >= 0, noise_level)
        rows = torch.arange(len(chain), device=chain.device)
        steps = [
            _Step(chain[rows, at + 1], *self._step(cache, state, chain[rows, at], step))
            for at, step in zip(indices, schedule, strict=True)
        ]
        return self._score(cache, steps, chain[:, 0], denoise_index, elapsed)

    def _encode(self, inputs: Any, state: Tensor) -> Any:
        after_vlm = self.critic is not None and self.critic.after_vlm
        return self.network.encode_prefix(inputs, state, need_output=after_vlm)

    def _index(self, noise: RolloutNoise, deterministic: bool) -> Tensor:
        if deterministic:
            return torch.full_like(noise.denoise_index, DETERMINISTIC)
        if self.flow.joint_logprob:
            return torch.zeros_like(noise.denoise_index)
        return noise.denoise_index

    def _all_steps(self, rows: Tensor) -> Tensor:
        """Return the numbers of all steps, int64 `[K, B]`, for a tensor of B rows."""
        return torch.arange(self.flow.num_steps, device=rows.device)[:, None].expand(-1, len(rows))

    def _denoising(
        self, index: Tensor, stochastic: Tensor, noise_level: float | Tensor
    ) -> list[DenoisingStep]:
        return denoising.denoising_steps(
            index, config=self.flow, stochastic=stochastic, noise_level=noise_level
        )

    def _step(
        self, cache: Any, state: Tensor, x: Tensor, step: DenoisingStep
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return mean and std `[B, H, D]` of the point after x, and the critic's input at x."""
        features = self.network.suffix_features(cache, state, x, step.begin)
        learned_std = None if self.noise_head is None else self.noise_head(features)
        velocity = self.network.velocity(features)
        mean, std = denoising.step_distribution(x, velocity, step, learned_std)
        if self.critic is None or self.critic.after_vlm:
            return mean, std, features.new_zeros(len(x), 0)
        return mean, std, expert_features(features, self.critic)

    def _score(
        self,
        cache: Any,
        steps: list[_Step],
        initial: Tensor,
        index: Tensor,
        elapsed: Tensor | None,
    ) -> Score:
        """Average log-probs, entropies and values over the steps.

        With joint log-probs the initial noise counts as one more step of log-probs and entropies.
        """
        logprobs = [denoising.log_prob(step.reached, step.mean, step.std) for step in steps]
        entropies = [denoising.entropy(step.std) for step in steps]
        if self.flow.joint_logprob:
            drawn = (index >= 0)[:, None, None].expand_as(initial).to(initial.dtype)
            zero = torch.zeros_like(initial)
            logprobs.append(denoising.log_prob(initial, zero, drawn) * drawn)
            entropies.append(denoising.entropy(drawn))
        entropy = torch.stack(entropies).mean(dim=0)
        if self.noise_head is None:  # the std does not depend on the weights
            entropy = torch.zeros_like(entropy)
        values = self._values(cache, [step.critic_input for step in steps], elapsed)
        return Score(torch.stack(logprobs).mean(dim=0), values, entropy)

    def _values(self, cache: Any, critic_inputs: list[Tensor], elapsed: Tensor | None) -> Tensor:
        """Return values `[B, V]`, the mean over the steps; `[B, 0]` without a critic."""
        if self.critic is None or self.value_head is None:
            return critic_inputs[0]
        if self.critic.after_vlm:
            critic_inputs = [self.network.vlm_features(cache, self.critic)]
        values = [self.value_head(features, elapsed) for features in critic_inputs]
        return torch.stack(values).mean(dim=0)


def _pick(steps: list[_Step], at: Tensor) -> _Step:
    """Select each row's step: row b of the result is row b of `steps[at[b]]`."""
    rows = torch.arange(len(at), device=at.device)
    return _Step(*(torch.stack(parts, dim=1)[rows, at] for parts in zip(*steps, strict=True)))
