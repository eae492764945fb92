"""The checks that rlcore has for every policy: of pixels and state, and of a state alone."""

from rlcore_testing import PolicyConformance
from rlcore_testing.conformance.fake_env import fake_env

SMALL = {"hidden": [32], "features": 16, "num_action_chunks": 3}


class TestPixelsAndState(PolicyConformance):
    name = "gaussian"
    settings = {**SMALL, "add_value_head": True}


class TestStateAlone(PolicyConformance):
    name = "gaussian"
    settings = {**SMALL, "num_action_chunks": 1, "critic_elapsed": False, "init_std": 1.5}
    env_spec = fake_env(cameras=0, state=6, action=2)


class TestTwoCameras(PolicyConformance):
    name = "gaussian"
    settings = {**SMALL, "num_images_in_input": 2}
    env_spec = fake_env(cameras=2)
