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

from rlcore.checks.plugin_files import configuration_folder
from rlcore.cli.parser import Parser
from rlcore.contracts.errors import ConfigError, choices_message
from rlcore.contracts.specs import KINDS, ComponentSpec
from rlcore.plugins.entry_points import installed
from rlcore.plugins.registry import Component, Registry, load_plugins
from rlcore.utils.console import Canvas
from rlcore_tools.check.check_log import note
from rlcore_tools.check.configuration import component_of, preset_findings, settings_findings
from rlcore_tools.check.targets import (
    HOOKSPECS,
    Found,
    component_findings,
    configuration_findings,
)

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
"""Names of further test suites in rlcore_testing.conformance; `SUITES` has those by kind."""
PROTOCOLS = "rlcore.contracts.protocols"
SILENCE = 10.0  # seconds between two progress lines if standard error is no terminal


def main(arguments: Sequence[str]) -> int:
    """Check the chosen components and plugins, and print the findings.

    Returns:
        exit code: 1 if there are findings other than warnings, else 0.

    Raises:
        ConfigError: the arguments contradict each other, or rlcore-testing is missing.
        PluginError: a named plugin or component does not exist.
    """
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
    found = list(_bad(registry, names))
    left_out: list[tuple[str, str]] = []
    folders = [(name, folder) for name in plugins for folder in _folders(registry, name)]
    for name, folder in folders:
        found += [("plugin", finding) for finding in configuration_findings(name, folder)]

    def play(suite: str, kind: str, name: str, contract: str) -> list[Found]:
        report = _played(suite, name, {} if suite == OF_HOOKS else settings, skip)
        for check in report.left_out:
            left_out.append((f"{kind} {name}", f"{check.check}: {check.reason}"))
        return list(_findings(report.findings, contract))

    with _progress():
        for component in chosen:
            spec = component.spec
            label = f"{spec.kind} {spec.name}"
            wrong = list(component_findings(spec)) or list(settings_findings(registry, component))
            suite = _suite_of(spec) if plays and not wrong else None
            if suite is not None:
                wrong = play(suite, spec.kind, spec.name, PROTOCOLS)
                note(component)
            found += [(label, finding) for finding in wrong]
        for _, folder in folders if names and not found else ():
            # presets would repeat the findings of their components
            path = configuration_folder(folder)
            found += [("plugin", finding) for finding in preset_findings(registry, path)]
        for name in plugins if plays else ():
            wrong = play(OF_HOOKS, "plugin", name, HOOKSPECS)
            found += [(f"plugin {name}", finding) for finding in wrong]
    causes = _by_cause(found)
    for labels, finding in causes:
        print(_lines(labels, finding))
    for label, reason in left_out:
        print(f"{label}: not checked: {reason}")
    depth = "what they name and take"
    if plays:
        depth = "the conformance checks too" + (", and those of its hooks" if plugins else "")
    warnings = sum(finding.warning for _, finding in causes)
    counts = [
        _many(len(causes) - warnings, "finding"),
        *([_many(warnings, "warning")] if warnings else []),
        *([f"{_many(len(left_out), 'check')} left out"] if left_out else []),
    ]
    print(f"{_many(len(chosen), 'component')} checked ({depth}): {', '.join(counts)}")
    return int(len(causes) > warnings)


def _lines(labels: Sequence[str], finding: Found) -> str:
    """Return a finding as lines of text.

    Args:
        labels: the components and plugins that have it.
    """
    others = f" (and {', '.join(labels[1:])})" if labels[1:] else ""
    warning = "warning: " if finding.warning else ""
    lines = [f"{labels[0]}{others}: {warning}{finding.what}"]
    if finding.also:
        lines.append(f"  also: {', '.join(finding.also)}")
    return "\n".join([*lines, f"  contract: {finding.contract}", f"  mend: {finding.mend}"])


def _by_cause(found: Sequence[tuple[str, Found]]) -> list[tuple[list[str], Found]]:
    """Merge findings that have the same cause.

    Returns:
        (labels of all findings with this cause, the first of them) for each cause.
    """
    causes: dict[tuple[str, str], tuple[list[str], Found]] = {}
    for label, finding in found:
        key = finding.cause or finding.what, finding.mend
        labels, _ = causes.setdefault(key, ([], finding))
        if label not in labels:
            labels.append(label)
    return list(causes.values())


def _skipped(
    words: Sequence[str], chosen: Sequence[Component], plugins: Sequence[str], plays: bool
) -> set[str]:
    """Return the names of the conformance checks to leave out.

    Args:
        words: names from the command line, as the checks are printed.
        chosen, plugins: the components and plugins that are checked.
        plays: whether conformance checks run at all.

    Raises:
        ConfigError: a name is no check of these components and plugins, or no checks run.
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
            raise ConfigError(f"there is no check {word!r}{choices_message(check, known)}")
        skip.add(check)
    return skip


def _many(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


class _Progress(logging.Handler):
    """Log handler that shows on standard error which conformance check runs.

    A terminal has one line that is updated. Otherwise a line is printed every `SILENCE` seconds at
    most.
    """

    def __init__(self) -> None:
        super().__init__()
        console = Canvas(file=sys.stderr)
        self._line = console.status("") if console.is_interactive else None
        self._began = monotonic()
        self._printed = self._began
        if self._line is not None:
            self._line.start()

    def emit(self, record: logging.LogRecord) -> None:
        now = monotonic()
        text = f"{now - self._began:.0f} s, {record.getMessage()}"
        if self._line is not None:
            self._line.update(text)
        elif now - self._printed > SILENCE:
            self._printed = now
            print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Remove the progress line from the terminal."""
        if self._line is not None:
            self._line.stop()
        super().close()


@contextmanager
def _progress() -> Iterator[None]:
    """Show the progress of conformance checks, which they log, within this context."""
    log = logging.getLogger("rlcore_testing")
    shown = _Progress()
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
    """Return the components and plugins that the command line names.

    Args:
        names: none (all components and plugins), the name of a plugin, the name of a component of
            any kind, or KIND NAME of a component or preset.

    Returns:
        (components, names of plugins, settings of the named preset; empty without one).

    Raises:
        ConfigError: there are too many names.
        PluginError: no component, preset or plugin has the name.
    """
    plugins = [name for name, _ in registry.manager.list_name_plugin()]
    known = [component for kind in KINDS for component in registry.components(kind)]
    if not names:
        return known, plugins, {}
    if len(names) == 2 and names[0] in KINDS:
        kind, name = names
        preset = None if name in registry.names(kind) else component_of(registry, kind, name)
        component, settings = preset or (registry.get(kind, name), {})
        return [component], [], settings
    if len(names) > 1:
        raise ConfigError(
            f"check takes a plugin, a component, or KIND NAME, got {' '.join(names)}",
            hint="rlcore check env my_env key=value",
        )
    (name,) = names
    if name in plugins:
        return [component for component in known if component.plugin == name], [name], {}
    found = [component for component in known if component.spec.name == name]
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


def _folders(registry: Registry, plugin: str) -> list[str]:
    """Return the configuration folders of a plugin, from its hook `rlcore_config_paths`."""
    hook = getattr(registry.manager.get_plugin(plugin), "rlcore_config_paths", None)
    return [] if hook is None else [str(folder) for folder in hook()]


def _suite_of(spec: ComponentSpec) -> str | None:
    """Return the name of a component's suite in rlcore_testing; None if its kind has none."""
    if spec.kind == "algorithm" and _keeps_a_replay(spec):
        return OF_A_REPLAY
    return SUITES.get(spec.kind)


def _played(suite: str, name: str, settings: Mapping[str, Any], skip: Collection[str]) -> Any:
    """Run the conformance checks of a suite.

    Args:
        suite: name of the suite in rlcore_testing.
        name: name of the component or plugin.
        settings: settings of the component.
        skip: names of checks to leave out.

    Returns:
        a :class:`rlcore_testing.conformance.base.Report`.
    """
    return _base().report(getattr(_testing(), suite), name, settings, skip)


def _keeps_a_replay(spec: ComponentSpec) -> bool:
    from rlcore.plugins.import_target import load_target

    if spec.config is None or spec.spec is None:
        return False
    try:
        return load_target(spec.spec)(load_target(spec.config)()).replay is not None
    except Exception:  # a plugin may raise anything; the conformance checks will report it
        return False


def _findings(found: Sequence[Any], contract: str) -> Iterator[Found]:
    """Yield one finding for each cause that conformance checks found.

    Args:
        found: findings of a conformance report.
        contract: where the contract is defined that was checked.
    """
    causes: dict[tuple[str, bool], list[Any]] = {}
    for finding in found:
        causes.setdefault((finding.cause, finding.warning), []).append(finding)
    for (_, warning), (first, *others) in causes.items():
        more = f", and {_many(len(others), 'check')} more" if others else ""
        yield Found(
            f"{first.check}{more}: {first.message}",
            contract,
            first.hint,
            warning,
            cause=first.cause,
            also=tuple(finding.check for finding in others),
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
