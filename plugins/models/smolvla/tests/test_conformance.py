"""The checks that rlcore has for every policy, at size tiny."""

from rlcore_testing import PolicyConformance
from rlcore_testing.conformance.fake_env import fake_env

TINY = {
    "size": "tiny",
    "action_horizon": 6,
    "num_steps": 3,
    "noise_level": 0.8,
    "critic_elapsed": True,
    "critic_hidden": [16],
}


class TestAllWeights(PolicyConformance):
    name = "smolvla"
    settings = {
        "num_action_chunks": 4,
        "add_value_head": True,
        "smolvla": {**TINY, "train_expert_only": False},
    }


class TestTheExpertOfTwoCameras(PolicyConformance):
    """The VLM frozen, a learnt spread, and a value per action."""

    name = "smolvla"
    env_spec = fake_env(cameras=2)
    settings = {
        "num_action_chunks": 4,
        "num_images_in_input": 2,
        "add_value_head": True,
        "smolvla": {
            **TINY,
            "noise_method": "flow_noise",
            "joint_logprob": True,
            "value_type": "action_level",
        },
    }
