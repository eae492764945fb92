"""The checks that rlcore has for every policy, for both generations at size tiny."""

from rlcore_testing import PolicyConformance

TINY = {
    "size": "tiny",
    "action_horizon": 6,
    "num_steps": 3,
    "noise_level": 0.8,
    "critic_elapsed": True,
    "critic_hidden": [16],
}
VLM = "actor.network.paligemma_with_expert.paligemma.model.language_model."
# The action expert reads keys and values of the VLM's last layer; what follows them there is
# read by a critic behind the VLM alone.
UNREAD = (
    *(VLM + "layers.1." + n for n in ("self_attn.q_proj", "self_attn.o_proj", "mlp", "post_")),
    VLM + "norm",
)


class TestPi0(PolicyConformance):
    name = "openpi"
    settings = {
        "num_action_chunks": 4,
        "add_value_head": True,
        "openpi": {**TINY, "config_name": "pi0_metaworld", "train_expert_only": False},
    }
    unreached = UNREAD


class TestPi05(PolicyConformance):
    name = "openpi"
    settings = {
        "num_action_chunks": 4,
        "add_value_head": True,
        "openpi": {
            **TINY,
            "config_name": "pi05_metaworld",
            "train_expert_only": False,
            "noise_anneal": True,
        },
    }
    unreached = UNREAD


class TestTheExpertOfPi0(PolicyConformance):
    """The VLM frozen, a learnt spread, and a value per action."""

    name = "openpi"
    settings = {
        "num_action_chunks": 4,
        "add_value_head": True,
        "openpi": {
            **TINY,
            "config_name": "pi0_metaworld",
            "noise_method": "flow_noise",
            "joint_logprob": True,
            "value_type": "action_level",
        },
    }
