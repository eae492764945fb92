"""What policy-gradient algorithms share: the surrogate, the entropy and the KL of one micro-batch.

An algorithm of a plugin adds how advantages come about and, if it has a critic, its loss.
"""

from __future__ import annotations

from torch import Tensor

from rlcore.algo.loss import entropy_mean, kl_to_reference, policy_loss
from rlcore.algo.metric import Metric
from rlcore.algo.reduce import Weights, at_level, entropy_at_level
from rlcore.config.schema import AlgorithmConfig


class ClippedSurrogate:
    """`policy - entropy_bonus * H + kl_beta * KL(reference)`, from the shared settings."""

    target_kl: float | None = None

    def __init__(self, config: AlgorithmConfig) -> None:
        self._shared = config

    def trains_policy(self, update: int) -> bool:
        """Every update trains the policy."""
        return True

    def surrogate(
        self,
        *,
        logprobs: Tensor,
        old_logprobs: Tensor,
        reference_logprobs: Tensor | None,
        entropy: Tensor,
        advantages: Tensor,
        valid: Tensor,
        weights: Weights,
    ) -> tuple[Tensor, dict[str, Metric]]:
        """Loss of the policy without a critic.

        Args:
            logprobs, old_logprobs: float32 `[B, C, A]`.
            reference_logprobs: likewise, or None where `kl_beta` is 0.
            entropy: elementwise `[B, C, A]` (or `[B, C, 1]`, `[B, 1, A]`, spread over it), or one
                entry per chunk `[B, 1, 1]`, see :func:`entropy_at_level`.
            advantages: `[B, D]`, D = 1 or C.
            valid: bool `[B, C]`.
            weights: of the B samples.
        """
        shared = self._shared
        level = shared.logprob_type
        new = at_level(logprobs, valid, level)
        loss, metrics = policy_loss(
            logprobs=new,
            old_logprobs=at_level(old_logprobs, valid, level),
            advantages=advantages.unsqueeze(-1),
            weights=weights.policy,
            clip_ratio_low=shared.clip_ratio_low,
            clip_ratio_high=shared.clip_ratio_high,
            clip_ratio_c=shared.clip_ratio_c,
            clip_log_ratio=shared.clip_log_ratio,
        )
        if entropy.shape[1:] != (1, 1):
            entropy = entropy.expand_as(logprobs)
        entropies = entropy_at_level(entropy, valid, shared.entropy_type)
        bonus, more = entropy_mean(entropy=entropies, weights=weights.entropy)
        loss, metrics = loss - shared.entropy_bonus * bonus, {**metrics, **more}
        if reference_logprobs is not None:
            kl, more = kl_to_reference(
                logprobs=new,
                reference_logprobs=at_level(reference_logprobs, valid, level),
                weights=weights.policy,
            )
            loss, metrics = loss + shared.kl_beta * kl, {**metrics, **more}
        return loss, metrics
