"""Conformance checks for authors of plugins, and a toy env and policy to test against.

Names are imported on first access, so that an env's tests load no tensor library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlcore_testing.conformance.algorithm import AlgorithmConformance
    from rlcore_testing.conformance.backend import BackendConformance
    from rlcore_testing.conformance.command import CommandConformance
    from rlcore_testing.conformance.env import EnvConformance
    from rlcore_testing.conformance.hook import HookConformance
    from rlcore_testing.conformance.placement import PlacementConformance
    from rlcore_testing.conformance.policy import PolicyConformance
    from rlcore_testing.conformance.replay import ReplayConformance
    from rlcore_testing.conformance.suites import check
    from rlcore_testing.conformance.tracker import TrackerConformance

__all__ = [
    "AlgorithmConformance",
    "BackendConformance",
    "CommandConformance",
    "EnvConformance",
    "HookConformance",
    "PlacementConformance",
    "PolicyConformance",
    "ReplayConformance",
    "TrackerConformance",
    "check",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "suites" if name == "check" else name.removesuffix("Conformance").lower()
    return getattr(import_module(f"{__name__}.conformance.{module}"), name)
