"""The checks that rlcore has for every policy: one action a decision, and several."""

import pytest
from rlcore_testing import PolicyConformance

TINY = {"size": "tiny", "add_value_head": True, "critic_hidden": [16]}


@pytest.mark.long
class TestOneAction(PolicyConformance):
    """As published: seven tokens, four of which the env executes."""

    name = "openvla"
    settings = {**TINY, "num_action_chunks": 1, "action_dim": 7, "action_entries": [0, 1, 2, 6]}


class TestSeveralActions(PolicyConformance):
    """And what else can be set for the critic and for sampling."""

    name = "openvla"
    settings = {
        **TINY,
        "num_action_chunks": 3,
        "temperature": 1.6,
        "top_k": 50,
        "value_type": "action_level",
        "critic_elapsed": True,
        "detach_critic_input": True,
    }
