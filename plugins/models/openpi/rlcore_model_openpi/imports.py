"""Map the keys of RLinf's config files to the settings of π0 and π0.5. No tensor library."""

from __future__ import annotations

from typing import Any

from rlcore_tools.import_rules import Foreign, ImportRule

SAMPLING = "of token policies: a flow policy draws noise (openpi.noise_method)"
NO_RTC = "there is no real-time chunking"
DSRL = "of DSRL, an algorithm that rlcore does not have"

SILENT = {
    "actor.model.openpi.config_name": "pi0_libero",
    "actor.model.openpi.num_images_in_input": 2,
    "actor.model.openpi.train_expert_only": False,
}
"""RLinf's defaults, by key, for keys that a file leaves out."""


def _as(other: str) -> Any:
    """Return a check that a key may be dropped: key `other` has the same value, or is not set."""

    def of(value: Any, foreign: Foreign) -> Any:
        if foreign.get(other, value) != value:
            raise ValueError(f"{other} decides")
        return value

    return of


RULES = (
    ImportRule("actor.model.num_steps", "actor.model.openpi.num_steps", "it stands below openpi"),
    *(
        ImportRule(
            f"actor.model.openpi.{theirs}",
            f"actor.model.{ours}",
            "one key for both",
            _as(f"actor.model.{ours}"),
        )
        for theirs, ours in (
            ("action_chunk", "num_action_chunks"),
            ("action_env_dim", "action_dim"),
            ("add_value_head", "add_value_head"),
        )
    ),
    ImportRule("actor.model.use_proprio", None, "config_name decides whether the state is read"),
    ImportRule(
        "actor.model.precision",
        "actor.model.precision",
        "null is theirs for bf16 with some weights in fp32; here fp32 unless bf16 is asked for",
        lambda value, _: "fp32" if value is None else value,
    ),
    ImportRule(
        "actor.model.openpi.detach_critic_input",
        "actor.model.openpi.detach_critic_input",
        "null is false",
        lambda value, _: bool(value),
    ),
    *(
        ImportRule(key, key, "theirs where a file is silent", silent=value)
        for key, value in SILENT.items()
    ),
    ImportRule("actor.model.openpi.use_dsrl", None, DSRL, only=(False,)),
    *(
        ImportRule(f"actor.model.openpi.{name}", None, DSRL)
        for name in (
            "dsrl_state_dim",
            "dsrl_action_noise_dim",
            "dsrl_num_q_heads",
            "dsrl_agg_q",
            "dsrl_image_latent_dim",
            "dsrl_state_latent_dim",
            "dsrl_hidden_dims",
        )
    ),
    ImportRule("actor.model.openpi.rtc_enabled", None, NO_RTC, only=(False,)),
    ImportRule("actor.model.openpi.rtc_guidance_clip", None, NO_RTC),
    ImportRule("actor.model.openpi.rtc_guidance_mode", None, NO_RTC),
    ImportRule("actor.model.policy_setup", None, "openpi.config_name is the robot"),
    ImportRule("actor.model.model_name", None, "model_type says it"),
    ImportRule("actor.config_name", None, "of supervised training beside RL", only=(None,)),
    ImportRule("rollout.sampling_params.*", None, SAMPLING),
)
