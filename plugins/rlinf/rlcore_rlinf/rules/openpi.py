"""Import settings of π0 and π0.5."""

from __future__ import annotations

from typing import Any

from rlcore_rlinf.rule import Convert, ImportRule, RLinfFile, defaults, table

MODEL = "actor.model"
OPENPI = "actor.model.openpi"
NO_RTC = "rlcore has no real-time chunking"
DSRL = "DSRL is an algorithm in rlcore: algorithm=dsrl"
BY_CONFIG = "openpi.config_name determines it"
IMPLEMENTATIONS = {"openpi_pytorch": "openpi", "openpi_rlinf": "openpi"}
"""The model of each of RLinf's further implementations of openpi's networks."""


def _same_as(other: str) -> Convert:
    """Return a check that key `other` has the same value, or is not set."""

    def convert(value: Any, file: RLinfFile) -> Any:
        if file.get(other, value) != value:
            raise ValueError(f"{other} decides")
        return value

    return convert


def _one_key(theirs: str, ours: str) -> ImportRule:
    ours = f"{MODEL}.{ours}"
    return ImportRule(f"{OPENPI}.{theirs}", ours, "one key for both", _same_as(ours))


RULES = table(
    ImportRule(
        "actor.model.model_type",
        "actor.model.model_type",
        "one implementation of the network",
        lambda value, _: IMPLEMENTATIONS.get(value, value),
    ),
    ImportRule(
        "actor.model.num_steps", "actor.model.openpi.num_steps", "the key is in the section openpi"
    ),
    _one_key("action_chunk", "num_action_chunks"),
    _one_key("action_env_dim", "action_dim"),
    _one_key("add_value_head", "add_value_head"),
    ImportRule(
        "actor.model.precision",
        "actor.model.precision",
        "in RLinf null is bf16 with some weights in fp32; in rlcore null is fp32",
        lambda value, _: "fp32" if value is None else value,
    ),
    ImportRule(
        "actor.model.openpi.detach_critic_input",
        "actor.model.openpi.detach_critic_input",
        "null is false",
        lambda value, _: bool(value),
    ),
    *defaults(
        "RLinf's default",
        {
            "actor.model.openpi.config_name": "pi0_libero",
            "actor.model.openpi.num_images_in_input": 2,
            "actor.model.openpi.train_expert_only": False,
        },
    ),
    harmless={
        "actor.model.openpi.use_dsrl": (DSRL, (False,)),
        "actor.model.openpi.rtc_enabled": (NO_RTC, (False,)),
        "actor.config_name": ("for supervised training during RL", (None,)),
        "actor.model.openpi.model_action_dim": (BY_CONFIG, (32,)),
        "actor.model.openpi.paligemma_variant": (BY_CONFIG, ("gemma_2b",)),
        "actor.model.openpi.action_expert_variant": (BY_CONFIG, ("gemma_300m",)),
    },
    dropped={
        "actor.model.use_proprio": "config_name decides whether the state is read",
        "actor.model.openpi.dsrl_state_dim": DSRL,
        "actor.model.openpi.dsrl_action_noise_dim": DSRL,
        "actor.model.openpi.dsrl_num_q_heads": DSRL,
        "actor.model.openpi.dsrl_agg_q": DSRL,
        "actor.model.openpi.dsrl_image_latent_dim": DSRL,
        "actor.model.openpi.dsrl_state_latent_dim": DSRL,
        "actor.model.openpi.dsrl_hidden_dims": DSRL,
        "actor.model.openpi.rtc_guidance_clip": NO_RTC,
        "actor.model.openpi.rtc_guidance_mode": NO_RTC,
        "actor.model.policy_setup": "openpi.config_name determines the robot",
        "actor.model.model_name": "model_type determines it",
        "rollout.sampling_params.*": "for token policies; a flow policy samples noise "
        "(openpi.noise_method)",
    },
)
