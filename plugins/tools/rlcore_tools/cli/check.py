"""Run `rlcore check [PLUGIN | NAME | KIND NAME] [key=value ...] [--skip CHECK]`: hold plugins
against the contract. It loads what their components name, compares signatures, reads their
configuration, and plays the conformance checks of rlcore-testing on a component, or on all of a
plugin. The keys are settings of the component. What was not checked is listed with the reason. The
exit code is 1 if something is wrong."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any

import yaml  # type: ignore[import-untyped]

from rlcore.cli.parser import Parser
from rlcore.contracts.errors import ConfigError, choosing
from rlcore.contracts.specs import KINDS, ComponentSpec
from rlcore.plugins.entry_points import installed
from rlcore.plugins.registry import Component, Registry, load_plugins
from rlcore.terminal.console import Canvas
from rlcore_tools.check.checked import note
from rlcore_tools.check.composed import component_of, preset_findings, settings_findings
from rlcore_tools.check.targets import (
    HOOKSPECS,
    Found,
    component_findings,
    configuration_findings,
    folder_of,
)
from rlcore_tools.moved import outdated

SUITES = {
    "env": "EnvConformance",
    "model": "PolicyConformance",
    "algorithm": "AlgorithmConformance",
    "placement": "PlacementConformance",
    "tracker": "TrackerConformance",
    "command": "CommandConformance",
    "backend": "BackendConformance",
}
OF_A_REPLAY, OF_HOOKS = "ReplayConformance", "HookConformance"
"""Names of rlcore_testing."""
PROTOCOLS = "rlcore.contracts.protocols"
SILENCE = 10.0  # seconds after which a pipe is told what is going on


def main(arguments: Sequence[str]) -> int:
    """Print the findings."""
    parser = Parser(prog="rlcore check", description=__doc__)
    parser.add_argument("words", nargs="*", metavar="WORD", help="what to check; nothing: all")
    parser.add_argument("--quick", action="store_true", help="without the conformance checks")
    parser.add_argument(
        "--skip",
        action="append",
        default=[],
        metavar="CHECK",
        help="leave a conformance check out, by its name as it is printed; may be repeated",
    )
    options = parser.parse_args(arguments)
    names = [word for word in options.words if "=" not in word]
    registry = load_plugins()
    chosen, plugins, settings = _chosen(registry, names)
    settings |= _settings([word for word in options.words if "=" in word])
    plays = bool(names) and not options.quick
    skip = _skipped(options.skip, chosen, plugins, plays)
    found = [*_outdated(names), *_bad(registry, names)]
    left_out: list[tuple[str, str]] = []
    folders = [(name, folder) for name in plugins for folder in _folders(registry, name)]
    found += [("plugin", each) for one in folders for each in configuration_findings(*one)]
    with _progress():
        for component in chosen:
            spec = component.spec
            label = f"{spec.kind} {spec.name}"
            wrong = list(component_findings(spec)) or list(settings_findings(registry, component))
            suite = _suite_of(spec) if plays and not wrong else None
            if suite is not None:
                report = _played(suite, spec.name, settings, skip)
                wrong = list(_told(report.findings, PROTOCOLS))
                left_out += [(label, f"{one.check}: {one.reason}") for one in report.left_out]
                note(component)
            found += [(label, each) for each in wrong]
        if names and not found:  # else their faults are those, once more
            places = [folder_of(folder) for _, folder in folders]
            found += [("plugin", each) for one in places for each in preset_findings(registry, one)]
        for name in plugins if plays else ():
            report = _played(OF_HOOKS, name, {}, skip)
            found += [(f"plugin {name}", each) for each in _told(report.findings, HOOKSPECS)]
            left_out += [
                (f"plugin {name}", f"{one.check}: {one.reason}") for one in report.left_out
            ]
    causes = _by_cause(found)
    for labels, each in causes:
        warns = "warning: " if each.warning else ""
        also = f" (and {', '.join(labels[1:])})" if labels[1:] else ""
        print(f"{labels[0]}{also}: {warns}{each.what}")
        if each.also:
            print(f"  also: {', '.join(each.also)}")
        print(f"  contract: {each.contract}\n  mend: {each.mend}")
    for label, reason in left_out:
        print(f"{label}: not checked: {reason}")
    how = "the conformance checks too" + (", and those of its hooks" if plugins else "")
    if not plays:
        how = "what they name and take"
    warnings = sum(each.warning for _, each in causes)
    faults, also = len(causes) - warnings, f", {_many(warnings, 'warning')}" if warnings else ""
    also += f", {_many(len(left_out), 'check')} left out" if left_out else ""
    checked = f"{_many(len(chosen), 'component')} checked ({how})"
    print(f"{checked}: {_many(faults, 'finding')}{also}")
    return int(bool(faults))


def _by_cause(found: Sequence[tuple[str, Found]]) -> list[tuple[list[str], Found]]:
    """The first finding of each cause, with the labels of all that have it."""
    causes: dict[tuple[str, str], tuple[list[str], Found]] = {}
    for label, each in found:
        labels, _ = causes.setdefault((each.cause or each.what, each.mend), ([], each))
        labels += [] if label in labels else [label]
    return list(causes.values())


def _skipped(
    words: Sequence[str], chosen: Sequence[Component], plugins: Sequence[str], plays: bool
) -> set[str]:
    """The names of checks to leave out.

    Raises:
        ConfigError: there is no such check of what is chosen, or none is played.
    """
    if not words:
        return set()
    if not plays:
        raise ConfigError(
            "--skip leaves out conformance checks, and none are played here",
            hint="rlcore check KIND NAME --skip CHECK, without --quick",
        )
    suites = {_suite_of(component.spec) for component in chosen}
    suites |= {OF_HOOKS} if plugins else set()
    known = {check for suite in suites if suite for check in getattr(_testing(), suite).checks()}
    skip = set()
    for word in words:
        check = _base().sentence(word)
        if check not in known:
            raise ConfigError(f"there is no check {word!r}{choosing(check, known)}")
        skip.add(check)
    return skip


def _many(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


class _Progress(logging.Handler):
    """Says on standard error which check runs: on a terminal in one line, else now and then."""

    def __init__(self) -> None:
        super().__init__()
        console = Canvas(file=sys.stderr)
        self._line = console.status("") if console.is_interactive else None
        self._began = self._said = monotonic()
        if self._line is not None:
            self._line.start()

    def emit(self, record: logging.LogRecord) -> None:
        now = monotonic()
        text = f"{now - self._began:.0f} s, {record.getMessage()}"
        if self._line is not None:
            self._line.update(text)
        elif now - self._said > SILENCE:
            self._said = now
            print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Leave no line behind."""
        if self._line is not None:
            self._line.stop()
        super().close()


@contextmanager
def _progress() -> Iterator[None]:
    """Show what the conformance checks tell of themselves."""
    log, shown = logging.getLogger("rlcore_testing"), _Progress()
    log.addHandler(shown)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(shown)
        shown.close()


def _settings(words: Sequence[str]) -> dict[str, Any]:
    return {key: yaml.safe_load(value) for key, _, value in (w.partition("=") for w in words)}


def _chosen(
    registry: Registry, names: Sequence[str]
) -> tuple[list[Component], list[str], dict[str, Any]]:
    """The components that the words name, the plugins, and of a preset its settings.

    Raises:
        PluginError: there is none.
    """
    plugins = [name for name, _ in registry.manager.list_name_plugin()]
    known = [component for kind in KINDS for component in registry.components(kind)]
    if not names:
        return known, plugins, {}
    if len(names) == 2 and names[0] in KINDS:
        known_one = names[1] in registry.names(names[0])
        preset = None if known_one else component_of(registry, names[0], names[1])
        component, settings = preset or (registry.get(names[0], names[1]), {})
        return [component], [], settings
    if len(names) > 1:
        raise ConfigError(
            f"check takes a plugin, a component, or KIND NAME, got {' '.join(names)}",
            hint="rlcore check env my_env key=value",
        )
    (name,) = names
    if name in plugins:
        return [each for each in known if each.plugin == name], [name], {}
    found = [each for each in known if each.spec.name == name]
    if not found and not any(row.name == name for row in registry.rows()):
        choices = {*plugins, *(component.spec.name for component in known)}
        raise registry.not_found("plugin or component", name, choices)
    return found, [], {}


def _bad(registry: Registry, names: Sequence[str]) -> Iterator[tuple[str, Found]]:
    owners = {plugin.distribution for plugin in installed(os.environ) if plugin.name in names}
    for row in registry.rows():
        owned = row.kind != "plugin" and row.distribution in owners
        if row.status == "BAD" and (not names or row.name in names or owned):
            mend = "docs/plugins.md, When something is wrong"
            yield f"{row.kind} {row.name}", Found(row.reason, HOOKSPECS, mend)


def _outdated(names: Sequence[str]) -> Iterator[tuple[str, Found]]:
    """Imports of what core has under another name now."""
    where, mend = "docs/api.md#changed-since-api-01", "name the new one, then what else changed"
    for plugin, places in outdated():
        if not names or plugin.name in names:
            yield from ((f"plugin {plugin.name}", Found(one, where, mend)) for one in places)


def _folders(registry: Registry, plugin: str) -> list[str]:
    """Its folders of configuration."""
    hook = getattr(registry.manager.get_plugin(plugin), "rlcore_config_paths", None)
    return [] if hook is None else [str(folder) for folder in hook()]


def _suite_of(spec: ComponentSpec) -> str | None:
    """The conformance checks of its kind, as rlcore_testing names them; None: there are none."""
    if spec.kind == "algorithm" and _keeps_a_replay(spec):
        return OF_A_REPLAY
    return SUITES.get(spec.kind)


def _played(suite: str, name: str, settings: Mapping[str, Any], skip: Collection[str]) -> Any:
    """What the conformance checks come to: a :class:`rlcore_testing.conformance.base.Report`."""
    return _base().report(getattr(_testing(), suite), name, settings, skip)


def _keeps_a_replay(spec: ComponentSpec) -> bool:
    from rlcore.plugins.import_target import load_target

    if spec.config is None or spec.spec is None:
        return False
    try:
        return load_target(spec.spec)(load_target(spec.config)()).replay is not None
    except Exception:  # a plugin may fail in any way: the kit says how
        return False


def _told(found: Sequence[Any], contract: str) -> Iterator[Found]:
    """What the conformance checks found, each cause once."""
    causes: dict[tuple[str, bool], list[Any]] = {}
    for each in found:
        causes.setdefault((each.cause, each.warning), []).append(each)
    for (_, warning), (first, *others) in causes.items():
        more = f", and {_many(len(others), 'check')} more" if others else ""
        yield Found(
            f"{first.check}{more}: {first.message}",
            contract,
            first.hint,
            warning,
            cause=first.cause,
            also=tuple(each.check for each in others),
        )


def _testing() -> Any:
    try:
        import rlcore_testing
    except ImportError as error:
        raise ConfigError(
            "the conformance checks need rlcore-testing, not installed",
            hint='pip install "rlcore[testing]"; or --quick, without them',
        ) from error
    return rlcore_testing


def _base() -> Any:
    _testing()
    from rlcore_testing.conformance import base

    return base
