"""The checks that rlcore has for every env."""

import pytest
from libero_cases import MILK, SOUP, needs_libero
from rlcore_testing import EnvConformance


@pytest.mark.long
@needs_libero
class TestLibero(EnvConformance):
    name = "libero"
    settings = {
        "suite": "libero_object",
        "tasks": [SOUP, MILK],
        "stand_ins": True,
        "image_size": 32,
        "fast_render": True,
        "settle_steps": 2,
        "max_episode_steps": 40,
        "num_processes": 0,  # in this process: other tests have several
    }
