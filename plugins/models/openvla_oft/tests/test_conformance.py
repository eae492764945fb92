"""The checks that rlcore has for every policy, for both forms at size tiny."""

import pytest
from rlcore_testing import PolicyConformance
from rlcore_testing.conformance.fake_env import fake_env

TINY = {"size": "tiny", "num_action_chunks": 3, "add_value_head": True, "critic_hidden": [16]}


class TestRLinf(PolicyConformance):
    name = "openvla_oft"
    settings = {**TINY, "temperature": 1.6}


@pytest.mark.long
class TestAValuePerAction(PolicyConformance):
    """And what else can be set for the critic and for sampling."""

    name = "openvla_oft"
    settings = {
        **TINY,
        "value_type": "action_level",
        "critic_elapsed": True,
        "detach_critic_input": True,
        "top_k": 50,
        "action_dim": 7,
        "action_entries": [0, 1, 2, 6],
    }


class TestOfficial(PolicyConformance):
    name = "openvla_oft"
    settings = {
        **TINY,
        "implement_version": "official",
        "use_proprio": True,
        "proprio_dim": 4,
        "use_film": True,
        "num_images_in_input": 2,
        "action_norm": "bounds",
        "max_prompt_length": 40,
    }
    env_spec = fake_env(cameras=2)
