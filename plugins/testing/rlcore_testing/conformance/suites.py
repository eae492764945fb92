"""Find the checks of a component by its kind, and run them without pytest."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from rlcore.contracts.errors import ConfigError, choices_message
from rlcore.contracts.specs import ComponentSpec
from rlcore.plugins.import_target import load_target
from rlcore.plugins.registry import load_plugins
from rlcore_testing.conformance.base import Conformance, Finding, Report

PACKAGE = "rlcore_testing.conformance"
SUITES = {
    "env": f"{PACKAGE}.env:EnvConformance",
    "model": f"{PACKAGE}.policy:PolicyConformance",
    "algorithm": f"{PACKAGE}.algorithm:AlgorithmConformance",
    "placement": f"{PACKAGE}.placement:PlacementConformance",
    "tracker": f"{PACKAGE}.tracker:TrackerConformance",
    "command": f"{PACKAGE}.command:CommandConformance",
    "backend": f"{PACKAGE}.backend:BackendConformance",
    "hook": f"{PACKAGE}.hook:HookConformance",
}
"""Classes with checks, by kind of component; "hook": the hooks of a plugin."""
REPLAY_SUITE = f"{PACKAGE}.replay:ReplayConformance"  # of an algorithm with a replay


def suite_of(kind: str, name: str) -> type[Conformance] | None:
    """Return the class that checks a component; None if its kind has none.

    Args:
        kind: the component's kind, or "hook".
        name: the component's name; for "hook", that of the plugin.
    """
    if kind not in SUITES:
        return None
    has_replay = kind == "algorithm" and _has_replay(load_plugins().get("algorithm", name).spec)
    suite: type[Conformance] = load_target(REPLAY_SUITE if has_replay else SUITES[kind])
    return suite


def report(kind: str, name: str, settings: Mapping[str, Any], skip: Collection[str] = ()) -> Report:
    """Run all checks of a component, including those that take long.

    Args:
        kind, name: as for :func:`suite_of`.
        settings: keys that differ from their defaults.
        skip: names of checks to skip, as sentences.
    """
    suite = suite_of(kind, name)
    if suite is None:
        return Report([], [])
    attributes = {"name": name, "settings": settings, **suite.thorough}
    checks: type[Conformance] = type(suite.__name__, (suite,), attributes)
    return checks.report(skip)


def check(kind: str, name: str, /, **settings: Any) -> list[Finding]:
    """Return the contract violations of a component under `settings`.

    Args:
        kind: the component's kind; "hook": the hooks of a plugin.
        name: the component's name, or that of the plugin.
        settings: keys that differ from their defaults.

    Raises:
        ConfigError: there are no checks for such a kind.
    """
    if kind not in SUITES:
        raise ConfigError(f"there are no checks of kind {kind!r}{choices_message(kind, SUITES)}")
    return report(kind, name, settings).findings


def _has_replay(spec: ComponentSpec) -> bool:
    if spec.config is None or spec.spec is None:
        return False
    try:
        needs = load_target(spec.spec)(load_target(spec.config)())
        return needs.replay is not None
    except Exception:  # a plugin may raise anything; the checks will report it
        return False
