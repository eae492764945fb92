"""The checks that rlcore has for every env."""

import pytest
from maniskill_cases import PICK, PUSH
from rlcore_testing import EnvConformance

pytestmark = pytest.mark.usefixtures("vulkan")


@pytest.mark.long
class TestManiSkill(EnvConformance):
    name = "maniskill"
    settings = {
        "tasks": [PICK, PUSH],
        "image_size": 32,
        "reward": "dense",  # says more about a step than success does
        "max_episode_steps": 50,
        "num_processes": 0,  # in this process: starting one costs seconds
    }
    simulator_loads = ("torch", "gymnasium", "transformers")


@pytest.mark.long
class TestManiSkillState(EnvConformance):
    name = "maniskill"
    settings = {
        "tasks": [PUSH],
        "obs_mode": "state",
        "max_episode_steps": 50,
        "num_processes": 0,
    }
    simulator_loads = ("torch", "gymnasium", "transformers")
