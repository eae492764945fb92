"""rlcore's checks of an env."""

from __future__ import annotations

from rlcore_testing import EnvConformance


class TestSlider(EnvConformance):
    name = "slider"
