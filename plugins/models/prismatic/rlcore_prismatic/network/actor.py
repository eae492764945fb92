"""Use the network as an RL actor: sample action tokens, and recompute the scores of stored ones.

A subclass defines how tokens are written: one by one, or all at once. Log-probs, entropy and values
are computed here, in the same way for acting and for learning.

Legend: B rows, I images, L prompt tokens, N action tokens of a decision, D width, V values.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rlcore_prismatic import sampling
from rlcore_prismatic.network.heads import ValueHead
from rlcore_prismatic.network.model import PrismaticModel


@dataclass
class ActorInputs:
    """The network's inputs.

    Attributes:
        images: uint8 `[B, I, h, w, 3]`.
        tokens: int64 `[B, L]`, [BOS, padding, prompt].
        token_mask: bool `[B, L]`, false where padded.
        proprio: float `[B, S]` in [-1, 1]; S = 0 if it is not read.
        elapsed: float `[B]`, elapsed fraction of the episode.
    """

    images: Tensor
    tokens: Tensor
    token_mask: Tensor
    proprio: Tensor
    elapsed: Tensor


@dataclass
class Reading:
    """The network's outputs for its inputs and the action tokens.

    Attributes:
        logits: of the action tokens, fp32 `[B, N, bins]`.
        features: the critic's input, `[B, D]`.
        hidden: the outputs that the logits are computed from, `[B, N, D]`.
    """

    logits: Tensor
    features: Tensor
    hidden: Tensor


@dataclass
class Score:
    """Log-probs and entropy `[B, N]`, values `[B, V]`; fp32."""

    logprobs: Tensor
    values: Tensor
    entropy: Tensor


@dataclass
class Decision:
    """The action tokens of B decisions.

    Attributes:
        indices: int64 `[B, N]`, indices of action tokens.
        allowed: the tokens that could have been drawn, bool `[B, N, bins]`; None: all.
    """

    indices: Tensor
    allowed: Tensor | None = None


Choose = Callable[[Tensor, int], Tensor]
"""Logits `[B, n, bins]` of the tokens `first, first + 1, ...` -> their indices `[B, n]`."""


@dataclass(frozen=True)
class Writing:
    """Settings of sampling and of the critic's input.

    Attributes:
        slots: N.
        temperature, top_k: of the distribution of tokens, see :mod:`rlcore_prismatic.sampling`.
        detach_critic_input: the value loss trains only the critic.
        idle: the slots whose entries the env does not execute. They always hold the middle token:
            a sampled token there would affect later tokens, but its log-prob would not be counted.
    """

    slots: int
    temperature: float
    top_k: int
    detach_critic_input: bool = False
    idle: tuple[int, ...] = ()


class TokenActor(nn.Module, ABC):
    """A network with its critic, as an abstract actor.

    Args:
        network: the network.
        value_head: the critic; None: values are `[B, 0]`.
        writing: settings of sampling.
    """

    def __init__(
        self, network: PrismaticModel, value_head: ValueHead | None, writing: Writing
    ) -> None:
        super().__init__()
        self.network = network
        self.value_head = value_head
        self.writing = writing
        self.temperature = writing.temperature

    @abstractmethod
    def read(self, inputs: ActorInputs, indices: Tensor) -> Reading:
        """Compute the logits of all N tokens, given their `indices` int64 `[B, N]`."""

    @abstractmethod
    def write(self, inputs: ActorInputs, choose: Choose) -> tuple[Tensor, Reading]:
        """Choose all tokens; return indices `[B, N]`, and what :meth:`read` gives for them."""

    def decide(self, inputs: ActorInputs, uniform: Tensor | None) -> tuple[Decision, Score]:
        """Sample tokens and score them.

        Args:
            inputs: the network's inputs.
            uniform: numbers in [0, 1) `[B, N]`, one per token; None: take the most likely tokens.
        """
        allowed_tokens: list[Tensor] = []

        def choose(logits: Tensor, first: int) -> Tensor:
            allowed = sampling.likeliest(logits, self.writing.top_k)
            if allowed is not None:
                allowed_tokens.append(allowed)
            if uniform is None:
                return self._with_idle(logits.argmax(dim=-1), first)
            drawn = uniform[:, first : first + logits.shape[1]]
            indices = sampling.inverse_cdf(self._log_probs(logits, allowed), drawn)
            return self._with_idle(indices, first)

        indices, reading = self.write(inputs, choose)
        decision = Decision(indices, torch.cat(allowed_tokens, dim=1) if allowed_tokens else None)
        return decision, self._score(inputs, reading, decision)

    def score(self, inputs: ActorInputs, decision: Decision) -> Score:
        """Compute the scores of a stored decision under the current weights, with gradients.

        Probabilities are over the tokens that were allowed when the decision was sampled.
        """
        reading = self.read(inputs, self._with_idle(decision.indices))
        return self._score(inputs, reading, decision)

    def cross_entropy(self, inputs: ActorInputs, indices: Tensor) -> Tensor:
        """Return -log p of the given tokens at temperature 1 over all action tokens, `[B, N]`."""
        logits = self.read(inputs, self._with_idle(indices)).logits
        return -sampling.chosen(torch.log_softmax(logits, dim=-1), indices)

    def _with_idle(self, indices: Tensor, first: int = 0) -> Tensor:
        """Put the middle token into idle slots; `indices` `[B, n]` begin at slot `first`."""
        columns = [
            slot - first for slot in self.writing.idle if 0 <= slot - first < indices.shape[1]
        ]
        if not columns:
            return indices
        filled = indices.clone()
        filled[:, columns] = self.network.size.action_bins // 2
        return filled

    def _log_probs(self, logits: Tensor, allowed: Tensor | None) -> Tensor:
        return sampling.log_probs(logits, temperature=self.temperature, allowed=allowed)

    def _score(self, inputs: ActorInputs, reading: Reading, decision: Decision) -> Score:
        logprobs = self._log_probs(reading.logits, decision.allowed)
        return Score(
            logprobs=sampling.chosen(logprobs, decision.indices),
            values=self.values(reading.features, inputs.elapsed),
            entropy=sampling.entropy(logprobs),
        )

    def values(self, features: Tensor, elapsed: Tensor) -> Tensor:
        """Compute values fp32 `[B, V]` from :attr:`Reading.features`."""
        if self.value_head is None:
            return torch.zeros(len(features), 0, device=features.device)
        features = features.float()
        if self.writing.detach_critic_input:
            features = features.detach()
        return self.value_head(features, elapsed)
