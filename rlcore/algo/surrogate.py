"""Compute what policy-gradient algorithms share: surrogate, entropy and KL of one micro-batch.

An algorithm of a plugin adds how advantages are computed and, if it has a critic, its loss.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from rlcore.algo.loss import entropy_mean, kl_to_reference, policy_loss
from rlcore.algo.reduce import at_level, entropy_at_level
from rlcore.config.schema import AlgorithmConfig
from rlcore.contracts.decisions import Evaluation
from rlcore.contracts.learning import Step
from rlcore.contracts.metric import Metric
from rlcore.contracts.minibatch import Minibatch
from rlcore.contracts.protocols import Learning, OnPolicy


class ClippedSurrogate:
    """`policy - entropy_bonus * H + kl_beta * KL(reference)`, from the shared settings."""

    target_kl: float | None = None

    def __init__(self, config: AlgorithmConfig) -> None:
        self._shared = config

    def updates(self: OnPolicy, learning: Learning) -> Iterator[Step]:
        """Minibatches of the rollout."""
        return learning.rollout_steps(self)

    def trains_policy(self, update: int) -> bool:
        """Every update trains the policy."""
        return True

    def surrogate(self, now: Evaluation, batch: Minibatch) -> tuple[Tensor, dict[str, Metric]]:
        """Loss of the policy without a critic; values play no part.

        Args:
            now: what the policy says of B samples now. An entropy `[B, C, 1]` or `[B, 1, A]` is
                spread over `[B, C, A]`; of one entry per chunk see :func:`entropy_at_level`.
            batch: the B samples; with reference log-probs, the KL to them costs `kl_beta`.
        """
        shared = self._shared
        level = shared.logprob_type
        valid, weights = batch.valid, batch.weights
        new = at_level(now.logprobs, valid, level)
        loss, metrics = policy_loss(
            logprobs=new,
            old_logprobs=at_level(batch.old_logprobs, valid, level),
            advantages=batch.advantages.unsqueeze(-1),
            weights=weights.policy,
            clip_ratio_low=shared.clip_ratio_low,
            clip_ratio_high=shared.clip_ratio_high,
            clip_ratio_c=shared.clip_ratio_c,
            clip_log_ratio=shared.clip_log_ratio,
        )
        entropy = now.entropy
        if entropy.shape[1:] != (1, 1):
            entropy = entropy.expand_as(now.logprobs)
        entropies = entropy_at_level(entropy, valid, shared.entropy_type)
        bonus, more = entropy_mean(entropy=entropies, weights=weights.entropy)
        loss, metrics = loss - shared.entropy_bonus * bonus, {**metrics, **more}
        if batch.reference_logprobs is not None:
            kl, more = kl_to_reference(
                logprobs=new,
                reference_logprobs=at_level(batch.reference_logprobs, valid, level),
                weights=weights.policy,
            )
            loss, metrics = loss + shared.kl_beta * kl, {**metrics, **more}
        return loss, metrics
