"""rlcore's checks of an env."""

from __future__ import annotations

from rlcore_testing import EnvConformance


class TestFetch(EnvConformance):
    name = "fetch"
    settings = {"image_size": 32, "max_episode_steps": 80}
