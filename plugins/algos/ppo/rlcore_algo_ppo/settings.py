"""Settings of PPO and what they ask of the rest. Light: no tensor library."""

from __future__ import annotations

from dataclasses import dataclass

from rlcore.config.schema import AlgorithmConfig, key
from rlcore.errors import ConfigError
from rlcore.specs import AlgorithmNeeds


@dataclass
class PPOConfig(AlgorithmConfig):
    """Keys of `algorithm=ppo` besides the shared ones."""

    name: str = key("registered name of the algorithm", "ppo")
    adv_type: str = key("how advantages are made", "gae", choices=("gae",))
    loss_type: str = key(
        "policy and critic are trained together", "actor_critic", choices=("actor_critic",)
    )
    gae_lambda: float = key("lambda of GAE, in [0, 1]", 0.95, least=0, most=1)
    bootstrap_type: str = key(
        "value after an episode's end: none; standard: where the time limit ended it; always: "
        "at any end whose final observation the rollout valued",
        "none",
        choices=("none", "standard", "always"),
    )
    value_coef: float = key("coefficient of the value loss", 1.0, least=0)
    value_clip: float | None = key("values clipped to the old one +- this; null: off", 0.2, above=0)
    huber_delta: float | None = key(
        "error beyond which the value loss is linear; null: never", 10.0, above=0
    )
    critic_warmup_updates: int = key("first updates that train the critic alone", 0, least=0)
    target_kl: float | None = key(
        "an update ends before a minibatch whose approximate KL exceeds this; null: never", above=0
    )


def needs(config: PPOConfig) -> AlgorithmNeeds:
    """A critic; values of final observations if they are bootstrapped from; the log-probs of
    the reference weights if drifting from them costs something.

    Raises:
        ConfigError: settings that have no meaning, before anything starts; see :func:`check`.
    """
    check(config)
    return AlgorithmNeeds(
        values=True,
        bootstrap_values=config.bootstrap_type != "none",
        reference_logprobs=config.kl_beta != 0,
    )


def check(config: PPOConfig) -> None:
    """Refuse settings that have no meaning.

    Raises:
        ConfigError: names the key, its value and what is allowed.
    """
    if config.adv_type != "gae":
        raise ConfigError(f"algorithm.adv_type must be gae, got {config.adv_type!r}")
    if config.loss_type != "actor_critic":
        raise ConfigError(f"algorithm.loss_type must be actor_critic, got {config.loss_type!r}")
    for name, value in (("gamma", config.gamma), ("gae_lambda", config.gae_lambda)):
        if not 0 <= value <= 1:
            raise ConfigError(f"algorithm.{name} must lie in [0, 1], got {value}")
    if config.clip_ratio_c is not None and config.clip_ratio_c <= 1:
        raise ConfigError(f"algorithm.clip_ratio_c must exceed 1, got {config.clip_ratio_c}")
    positive = {
        "value_clip": config.value_clip,
        "huber_delta": config.huber_delta,
        "target_kl": config.target_kl,
        "clip_log_ratio": config.clip_log_ratio,
    }
    for name, bound in positive.items():
        if bound is not None and bound <= 0:
            raise ConfigError(f"algorithm.{name} must be positive or null, got {bound}")
