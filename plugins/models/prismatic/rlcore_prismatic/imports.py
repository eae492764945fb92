"""How RLinf's files name the settings of token policies. Light."""

from __future__ import annotations

from typing import Any

from rlcore_tools.import_rules import UNSAID, Foreign, ImportRule

IN_THE_CHECKPOINT = "the checkpoint says it"


def _greedy(_: Any, foreign: Foreign) -> Any:
    temperature = foreign.get("rollout.sampling_params.temperature_eval")
    return UNSAID if temperature is None else temperature <= 0


RULES = (
    ImportRule("actor.model.vocab_size", None, IN_THE_CHECKPOINT),
    ImportRule("actor.model.hidden_size", None, IN_THE_CHECKPOINT),
    ImportRule("actor.model.add_bias_linear", None, IN_THE_CHECKPOINT),
    ImportRule("actor.model.add_qkv_bias", None, IN_THE_CHECKPOINT),
    ImportRule("actor.model.image_size", None, IN_THE_CHECKPOINT, only=([224, 224],)),
    ImportRule(
        "actor.model.center_crop",
        None,
        "they don't read it: the policy sees whole frames; here true shows it the middle of them",
    ),
    ImportRule("actor.model.attn_implementation", None, "torch chooses the kernel of attention"),
    ImportRule("actor.model.low_cpu_mem_usage", None, "weights are read where they are needed"),
    ImportRule("actor.model.trust_remote_code", None, "no code of a checkpoint is run"),
    ImportRule("actor.model.policy_setup", None, "unnorm_key and the env's action units say it"),
    ImportRule(
        "actor.model.value_type",
        "actor.model.value_type",
        "only with a value head",  # theirs stands in every file
        lambda value, foreign: value if foreign.get("actor.model.add_value_head") else UNSAID,
    ),
    ImportRule(
        "rollout.sampling_params.do_sample",
        None,
        "training always samples; temperature_eval decides for evaluations",
        only=(True,),
    ),
    ImportRule(
        "rollout.sampling_params.temperature_eval",
        "rollout.eval_temperature",
        "0 or less: the most likely tokens",
        lambda value, _: value if value > 0 else UNSAID,
    ),
    ImportRule(
        "", "rollout.eval_deterministic", "temperature_eval of 0 or less is greedy", _greedy
    ),
    ImportRule("rollout.sampling_params.max_new_tokens", None, "as many as an action has"),
)
