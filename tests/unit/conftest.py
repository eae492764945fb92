"""Fixtures shared by the unit tests."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from types import ModuleType

import pytest

from rlcore.config.schema import AlgorithmConfig, key
from rlcore.hookspecs import hookimpl
from rlcore.plugins import GROUP, Registry
from rlcore.specs import AlgorithmNeeds, ComponentSpec
from rlcore.testing.conformance.trajectories import random_trajectory
from rlcore.trajectory import Trajectory


@pytest.fixture
def play() -> Callable[..., Trajectory]:
    """Makes random trajectories; see :func:`random_trajectory`."""
    return random_trajectory


@dataclass
class Dial:
    """A section of a plugin that extends nothing of ours."""

    level: float = key("how much", 0.5)


@dataclass
class PlainConfig(AlgorithmConfig):
    """An algorithm for tests."""

    style: str = key("how it is done", "calm", choices=("calm", "bold"))
    dial: Dial = key("a section", Dial())
    compare: bool = key("whether it needs groups", False)


def needs(config: PlainConfig) -> AlgorithmNeeds:
    return AlgorithmNeeds(values=not config.compare, groups=config.compare)


@hookimpl
def rlcore_algorithms() -> list[ComponentSpec]:
    return [
        ComponentSpec(
            name="plain",
            target="fake_algorithm:make",
            config="fake_algorithm:PlainConfig",
            spec="fake_algorithm:needs",
        )
    ]


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry:
    """Core and the algorithm `plain`."""
    module = ModuleType("fake_algorithm")
    vars(module).update(
        RLCORE_API=(0, 1),
        PlainConfig=PlainConfig,
        needs=needs,
        rlcore_algorithms=rlcore_algorithms,
    )
    monkeypatch.setitem(sys.modules, "fake_algorithm", module)
    points = [
        EntryPoint("core", "rlcore.builtin", GROUP),
        EntryPoint("plain", "fake_algorithm", GROUP),
    ]
    return Registry.load(points, environ={})
