"""Conformance checks for authors of plugins, and a toy env and policy to test against.

Names are imported on first access, so that an env's tests load no tensor library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlcore_testing.conformance.algorithm import AlgorithmConformance, check_algorithm
    from rlcore_testing.conformance.backend import BackendConformance, check_backend
    from rlcore_testing.conformance.command import CommandConformance, check_command
    from rlcore_testing.conformance.env import EnvConformance, check_env
    from rlcore_testing.conformance.hook import HookConformance, check_hook
    from rlcore_testing.conformance.placement import PlacementConformance, check_placement
    from rlcore_testing.conformance.policy import PolicyConformance, check_policy
    from rlcore_testing.conformance.replay import ReplayConformance, check_replay
    from rlcore_testing.conformance.tracker import TrackerConformance, check_tracker

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
    "check_algorithm",
    "check_backend",
    "check_command",
    "check_env",
    "check_hook",
    "check_placement",
    "check_policy",
    "check_replay",
    "check_tracker",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    kind = name.removeprefix("check_").removesuffix("Conformance").lower()
    return getattr(import_module(f"{__name__}.conformance.{kind}"), name)
