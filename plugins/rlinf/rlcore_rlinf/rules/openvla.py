"""Import settings of OpenVLA and OpenVLA-OFT."""

from __future__ import annotations

from typing import Any

from rlcore_rlinf.rule import UNSET, ImportRule, RLinfFile, table

IN_THE_CHECKPOINT = "the checkpoint determines it"


def _greedy(_: Any, file: RLinfFile) -> Any:
    temperature = file.get("rollout.sampling_params.temperature_eval")
    return UNSET if temperature is None else temperature <= 0


OPENVLA_OFT = table(
    ImportRule(
        "actor.model.value_type",
        "actor.model.value_type",
        "only with a value head",  # every file of RLinf has the key
        lambda value, file: value if file.get("actor.model.add_value_head") else UNSET,
    ),
    ImportRule(
        "rollout.sampling_params.temperature_eval",
        "rollout.eval_temperature",
        "0 or less: the most likely tokens",
        lambda value, _: value if value > 0 else UNSET,
    ),
    ImportRule(
        "", "rollout.eval_deterministic", "temperature_eval of 0 or less is greedy", _greedy
    ),
    harmless={
        "actor.model.image_size": (IN_THE_CHECKPOINT, ([224, 224],)),
        "rollout.sampling_params.do_sample": (
            "training always samples; temperature_eval decides for evaluations",
            (True,),
        ),
    },
    dropped={
        "actor.model.vocab_size": IN_THE_CHECKPOINT,
        "actor.model.hidden_size": IN_THE_CHECKPOINT,
        "actor.model.add_bias_linear": IN_THE_CHECKPOINT,
        "actor.model.add_qkv_bias": IN_THE_CHECKPOINT,
        "actor.model.center_crop": "RLinf ignores it: its policy gets whole frames; in rlcore true "
        "crops their centre",
        "actor.model.attn_implementation": "torch chooses the attention kernel",
        "actor.model.low_cpu_mem_usage": "weights are read where they are needed",
        "actor.model.trust_remote_code": "rlcore runs no code of a checkpoint",
        "actor.model.policy_setup": "unnorm_key and the env's action units determine it",
        "rollout.sampling_params.max_new_tokens": "the action's dimension determines it",
    },
)
OPENVLA = (
    *table(harmless={"actor.model.use_proprio": ("OpenVLA reads no state", (False,))}),
    *OPENVLA_OFT,
)
