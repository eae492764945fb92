"""Fixtures shared by the unit tests."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest
from rlcore_policy_gradient.settings import OnPolicyNeeds, PolicyGradientConfig
from rlcore_testing.conformance.trajectories import random_trajectory

from rlcore.config.schema import key
from rlcore.contracts.hookspecs import hookimpl
from rlcore.contracts.specs import AlgorithmNeeds, ComponentSpec
from rlcore.contracts.trajectory import Trajectory
from rlcore.plugins.entry_points import CORE, Installed
from rlcore.plugins.registry import Registry


@pytest.fixture
def play() -> Callable[..., Trajectory]:
    """Makes random trajectories; see :func:`random_trajectory`."""
    return random_trajectory


@dataclass
class Dial:
    """A section of a plugin that extends nothing of ours."""

    level: float = key("how much", 0.5)


@dataclass
class PlainConfig(PolicyGradientConfig):
    """An algorithm for tests."""

    style: str = key("how it is done", "calm", choices=("calm", "bold"))
    dial: Dial = key("a section", Dial())
    compare: bool = key("whether it needs groups", False)


def needs(config: PlainConfig) -> AlgorithmNeeds:
    return OnPolicyNeeds.of(config, values=not config.compare, groups=config.compare)


@hookimpl
def rlcore_components() -> list[ComponentSpec]:
    return [
        ComponentSpec(
            kind="algorithm",
            name="plain",
            target="fake_algorithm:make",
            config="fake_algorithm:PlainConfig",
            spec="fake_algorithm:needs",
        )
    ]


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry:
    """Core, the toy and the algorithm `plain`."""
    module = ModuleType("fake_algorithm")
    vars(module).update(
        __spec__=ModuleSpec("fake_algorithm", None),
        RLCORE_API=(0, 1),
        PlainConfig=PlainConfig,
        needs=needs,
        rlcore_components=rlcore_components,
    )
    monkeypatch.setitem(sys.modules, "fake_algorithm", module)
    points = [
        Installed("core", CORE),
        Installed("testing", "rlcore_testing.plugin"),
        Installed("plain", "fake_algorithm"),
    ]
    return Registry.load(points, environ={})
