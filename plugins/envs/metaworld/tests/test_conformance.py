"""The checks that rlcore has for every env."""

from metaworld_cases import BUTTON, REACH
from rlcore_testing import EnvConformance


class TestMetaWorld(EnvConformance):
    name = "metaworld"
    settings = {
        "tasks": [BUTTON, REACH],
        "image_size": 32,
        "fast_render": True,
        "wrist_camera": True,
        "reward": "dense",  # says more about a step than success does
        "max_episode_steps": 100,
        "num_processes": 0,  # in this process: other tests have several
    }
