"""Compute the loss that policy-gradient algorithms share: surrogate, entropy and KL.

An algorithm adds its advantages and, if it has a critic, the value loss.
"""

from __future__ import annotations

from torch import Tensor

from rlcore.contracts.metric import Metric
from rlcore.contracts.protocols import Evaluation
from rlcore_policy_gradient.loss import entropy_mean, kl_to_reference, policy_loss
from rlcore_policy_gradient.minibatch import Minibatch
from rlcore_policy_gradient.on_policy import OnPolicy
from rlcore_policy_gradient.reduce import at_level, entropy_at_level


class ClippedSurrogate(OnPolicy):
    """An on-policy algorithm. Loss: `policy - entropy_bonus * H + kl_beta * KL(reference)`, with
    `kl_beta` times the factor :attr:`decay`."""

    def surrogate(self, now: Evaluation, batch: Minibatch) -> tuple[Tensor, dict[str, Metric]]:
        """Return the policy loss of B samples, without a value loss, and metrics.

        Args:
            now: the policy's evaluation of the samples. An entropy `[B, C, 1]` or `[B, 1, A]` is
                expanded to `[B, C, A]`; for one entry per chunk see :func:`entropy_at_level`.
            batch: the samples. If it has reference log-probs, `kl_beta` times `decay` times the KL
                to the reference is added.
        """
        shared = self._shared
        level = shared.logprob_type
        valid = batch.valid
        weights = batch.weights
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
        bonus, entropy_metrics = entropy_mean(entropy=entropies, weights=weights.entropy)
        loss = loss - shared.entropy_bonus * bonus
        metrics = {**metrics, **entropy_metrics}
        if batch.reference_logprobs is not None:
            kl, kl_metrics = kl_to_reference(
                logprobs=new,
                reference_logprobs=at_level(batch.reference_logprobs, valid, level),
                weights=weights.policy,
            )
            loss = loss + shared.kl_beta * self.decay * kl
            metrics = {**metrics, **kl_metrics}
        return loss, metrics
