"""The checks that rlcore has for every env, on the machinery around simulators."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from rlcore_testing import EnvConformance

from rlcore.contracts.specs import ComponentSpec


class LineConformance(EnvConformance):
    name = "line"

    @pytest.fixture(autouse=True)
    def found_by_new_interpreters(self, monkeypatch: pytest.MonkeyPatch) -> None:
        paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))

    def component(self) -> ComponentSpec:
        return ComponentSpec(
            kind="env",
            name="line",
            target="line_simulator:make_env",
            config="line_simulator:LineConfig",
            spec="line_simulator:env_spec",
        )


class TestTwoCameras(LineConformance):
    settings = {"num_processes": 0}


class TestNoCamera(LineConformance):
    settings = {"num_processes": 0, "cameras": 0, "extra_states": 5}
