"""Keys of `algorithm` that all policy-gradient algorithms share."""

from __future__ import annotations

from dataclasses import dataclass

from rlcore.config.schema.keys import Settings, key


@dataclass
class AlgorithmConfig(Settings):
    """Settings all policy-gradient algorithms share; a plugin's dataclass adds its own."""

    name: str = key("registered name of the algorithm", "???")
    reward_type: str = key(
        "one reward per chunk or per action", "chunk_level", choices=("chunk_level", "action_level")
    )
    logprob_type: str = key(
        "granularity of the ratio",
        "chunk_level",
        choices=("token_level", "action_level", "chunk_level"),
    )
    gamma: float = key(
        "discount per chunk (chunk_level) or per env step (action_level)", 0.99, above=0, most=1
    )
    group_size: int = key("episodes of an update that share one start", 1, least=1)
    update_epoch: int = key("passes over a rollout", 1, least=1)
    clip_ratio_low: float = key("ratio clipped below at 1 - this", 0.2, above=0, most=1)
    clip_ratio_high: float = key("ratio clipped above at 1 + this", 0.2, above=0)
    clip_ratio_c: float | None = key("dual clip for negative advantages; null: off", above=1)
    clip_log_ratio: float | None = key(
        "log ratio clamped to +- this, also against overflow (counted: "
        "train/actor/clamped_log_ratios); null: 20",
        above=0,
        most=20,
    )
    entropy_bonus: float = key("coefficient of the entropy", 0.0)
    entropy_type: str = key(
        "granularity of the entropy",
        "chunk_level",
        choices=("token_level", "action_level", "chunk_level"),
    )
    kl_beta: float = key("coefficient of the k3 KL to the reference weights", 0.0, least=0)
    loss_agg_func: str = key(
        "weights of the samples",
        "token-mean",
        choices=("token-mean", "seq-mean-token-sum", "seq-mean-token-mean"),
    )
    normalize_advantages: bool = key(
        "(A - mean) / (std + 1e-5) over all valid samples, std with n - 1; one sample gives 0", True
    )
    recompute_logprobs: bool = key("recompute old log-probs before the first epoch", False)
