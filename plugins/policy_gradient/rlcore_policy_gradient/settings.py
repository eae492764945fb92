"""Declare the settings and needs that on-policy algorithms share. Imports no tensor library."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rlcore.config.schema import AlgorithmConfig, Settings, When, key
from rlcore.contracts.errors import ConfigError
from rlcore.contracts.specs import AlgorithmNeeds, PolicySpec, ReplayNeeds
from rlcore_policy_gradient.levels import refusal

WHEN_IMITATES = When("coefficient", unless=(0,))


@dataclass
class ImitationConfig(Settings):
    """A supervised loss beside the surrogate, on demonstrations and own successes."""

    coefficient: float = key(
        "coefficient of the model's supervised loss, which each minibatch adds to its own; 0: off",
        0.0,
        minimum=0,
    )
    batch_size: int = key(
        "demonstration frames and own decisions that a minibatch adds",
        64,
        minimum=1,
        when=WHEN_IMITATES,
    )
    demonstrations: float = key(
        "share of them from the demonstrations of sft or collect.path; the rest are own successes; "
        "before the first success, demonstrations fill the batch; 0: no demonstrations are read",
        0.5,
        minimum=0,
        maximum=1,
        when=WHEN_IMITATES,
    )
    replay_mib: int = key(
        "MiB of own successes in the replay, over all actor processes; the oldest are dropped "
        "first",
        1024,
        minimum=1,
        when=WHEN_IMITATES,
    )


@dataclass
class PolicyGradientConfig(AlgorithmConfig, family=True):
    """Keys that on-policy algorithms share; an algorithm's dataclass adds its own."""

    reward_type: str = key(
        "one reward per chunk or per action", "chunk_level", choices=("chunk_level", "action_level")
    )
    logprob_type: str = key(
        "granularity of the ratio",
        "chunk_level",
        choices=("token_level", "action_level", "chunk_level"),
    )
    gamma: float = key(
        "discount per chunk (chunk_level) or per env step (action_level)",
        0.99,
        exclusive_minimum=0,
        maximum=1,
    )
    update_epoch: int = key("passes over a rollout", 1, minimum=1)
    clip_ratio_low: float = key(
        "ratio clipped below at 1 - this", 0.2, exclusive_minimum=0, maximum=1
    )
    clip_ratio_high: float = key("ratio clipped above at 1 + this", 0.2, exclusive_minimum=0)
    clip_ratio_c: float | None = key(
        "dual clip for negative advantages; null: off", exclusive_minimum=1
    )
    clip_log_ratio: float | None = key(
        "log ratio clamped to +- this, also against overflow (counted: "
        "train/actor/clamped_log_ratios); null: 20",
        exclusive_minimum=0,
        maximum=20,
    )
    entropy_bonus: float = key("coefficient of the entropy", 0.0)
    entropy_type: str = key(
        "granularity of the entropy",
        "chunk_level",
        choices=("token_level", "action_level", "chunk_level"),
    )
    kl_beta: float = key(
        "coefficient of the k3 KL to the reference weights, those at the start of training; 0: off",
        0.0,
        minimum=0,
    )
    imitation: ImitationConfig = key("supervised loss beside the surrogate", ImitationConfig())
    decay_start: float | None = key(
        "share of runner.max_epochs after which kl_beta and imitation.coefficient fall linearly; "
        "null: they are constant; a third is published; refused where both are 0",
        minimum=0,
        exclusive_maximum=1,
    )
    decay_end: float = key(
        "share of runner.max_epochs from which kl_beta and imitation.coefficient are 0",
        1.0,
        exclusive_minimum=0,
        maximum=1,
        when=When("decay_start", unless=(None,)),
    )
    desired_kl: float | None = key(
        "adapt the policy's learning rate to this approximate KL: before each minibatch after the "
        "first of an update it is divided by 1.5 if the KL is above twice this, and multiplied by "
        "1.5 if below half of it but not 0, within 0.01 to 10 times that of actor.optim; not "
        "during actor.optim.lr_warmup_steps; null: off",
        exclusive_minimum=0,
    )
    loss_agg_func: str = key(
        "weights of the samples",
        "token-mean",
        choices=("token-mean", "seq-mean-token-sum", "seq-mean-token-mean"),
    )
    normalize_advantages: bool = key(
        "(A - mean) / (std + 1e-5) over all valid samples, std with n - 1; one sample gives 0", True
    )
    recompute_logprobs: bool = key(
        "recompute old log-probs before the first epoch",
        False,
        when=When("behave_weight_threshold", (None,)),
    )
    behave_weight_threshold: float | None = key(
        "decoupled objective, for runner.loop=async: the ratio is to the policy at the start of "
        "the update, weighted by that policy's ratio to the one that acted; samples of a larger "
        "weight than this are left out; null: the ratio is to the policy that acted",
        exclusive_minimum=1,
    )


@dataclass(frozen=True)
class OnPolicyNeeds(AlgorithmNeeds):
    """The needs of an on-policy algorithm.

    Attributes:
        reward_type, logprob_type: settings of the algorithm. The width of the policy's value head
            must fit them (:func:`rlcore_policy_gradient.levels.refusal`).
        decoupled: whether samples are weighted for the policy that acted.
    """

    reward_type: str = "chunk_level"
    logprob_type: str = "chunk_level"
    decoupled: bool = False

    @classmethod
    def of(cls, config: PolicyGradientConfig, **needs: Any) -> OnPolicyNeeds:
        """Return the given needs plus those of the shared settings: log-probs of the reference
        weights if `kl_beta` is not 0, an end of training if `decay_start` is set, and what
        `imitation` draws from if its coefficient is not 0.

        Raises:
            ConfigError: `decay_start` is set and nothing decays, or `decay_end` is not after it.
        """
        imitation = config.imitation
        if config.decay_start is not None and not (config.kl_beta or imitation.coefficient):
            raise ConfigError(
                "algorithm.decay_start must be null where algorithm.kl_beta and "
                f"algorithm.imitation.coefficient are 0, got {config.decay_start}",
                hint="set a coefficient that is to decay, or leave decay_start out",
            )
        if config.decay_start is not None and config.decay_end <= config.decay_start:
            raise ConfigError(
                f"algorithm.decay_end must be more than decay_start = {config.decay_start}, got "
                f"{config.decay_end}"
            )
        if imitation.coefficient:
            needs["imitation"] = True
            needs["demonstrations"] = imitation.demonstrations > 0
            needs["replay"] = ReplayNeeds(imitation.replay_mib * 2**20, failures=False)
        return cls(
            reference_logprobs=config.kl_beta != 0,
            limited_updates=config.decay_start is not None,
            reward_type=config.reward_type,
            logprob_type=config.logprob_type,
            decoupled=config.behave_weight_threshold is not None,
            **needs,
        )

    @property
    def stale_refusal(self) -> str | None:
        # a replay does not help: the surrogate learns from the present rollout
        return None if self.decoupled else "algorithm.behave_weight_threshold is null (2 is usual)"

    def refusal(self, policy: PolicySpec) -> str | None:
        values = policy.value_dim if self.values else 0  # without a critic, values are unused
        reason = refusal(
            reward_type=self.reward_type,
            logprob_type=self.logprob_type,
            value_dim=values,
            num_action_chunks=policy.num_action_chunks,
        )
        return reason and (
            f"algorithm.reward_type={self.reward_type} and logprob_type={self.logprob_type} must "
            f"go together with a value head of width {values}: {reason}"
        )
