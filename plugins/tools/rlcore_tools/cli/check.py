"""Run `rlcore check [PLUGIN | NAME | KIND NAME] [key=value ...] [--skip CHECK]`: check plugins
against the contract. The command loads what their components name, compares signatures, reads their
configuration, and runs the conformance checks of rlcore-testing on a component, or on all of a
plugin. The keys are settings of the component. What was not checked is listed with the reason. The
exit code is 1 if something is wrong."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import entry_points
from time import monotonic
from typing import Any

import yaml  # type: ignore[import-untyped]

from rlcore.checks.plugin_files import configuration_folder
from rlcore.cli.parser import Parser
from rlcore.contracts.errors import ConfigError, choices_message
from rlcore.contracts.specs import KINDS
from rlcore.plugins.extras import install_command
from rlcore.plugins.registry import Component, Registry, load_plugins
from rlcore.utils.console import Canvas
from rlcore_tools.check.check_log import note
from rlcore_tools.check.configuration import component_of, preset_findings, settings_findings
from rlcore_tools.check.targets import (
    HOOKSPECS,
    Finding,
    component_findings,
    configuration_findings,
)

PROTOCOLS = "rlcore.contracts.protocols"
SILENCE = 10.0  # seconds between two progress lines where standard error is not a terminal


def main(arguments: Sequence[str]) -> int:
    """Check the chosen components and plugins, and print the findings.

    Returns:
        exit code: 1 if there are findings other than warnings, else 0.

    Raises:
        ConfigError: the arguments contradict each other, or rlcore-testing is missing.
        PluginError: a named plugin or component does not exist.
    """
    parser = Parser(prog="rlcore check", description=__doc__)
    parser.add_argument(
        "words",
        nargs="*",
        metavar="WORD",
        help="a plugin, component or setting; default: all plugins",
    )
    parser.add_argument("--quick", action="store_true", help="skip the conformance checks")
    parser.add_argument(
        "--skip",
        action="append",
        default=[],
        metavar="CHECK",
        help="skip a conformance check, by its name as it is printed; may be repeated",
    )
    options = parser.parse_args(arguments)
    names = [word for word in options.words if "=" not in word]
    registry = load_plugins()
    chosen, plugins, settings = _select(registry, names)
    settings |= _parse_settings([word for word in options.words if "=" in word])
    runs_suites = bool(names) and not options.quick
    skip = _checks_to_skip(options.skip, chosen, plugins, runs_suites)
    findings = list(_unusable_plugins(registry, names))
    left_out: list[tuple[str, str]] = []
    folders = [(name, folder) for name in plugins for folder in _config_folders(registry, name)]
    for name, folder in folders:
        findings += [("plugin", finding) for finding in configuration_findings(name, folder)]

    def run_checks(kind: str, name: str, label: str, contract: str) -> list[Finding]:
        report = _conformance().report(kind, name, {} if kind == "hook" else settings, skip)
        for check in report.left_out:
            left_out.append((label, f"{check.check}: {check.reason}"))
        return list(_findings(report.findings, contract))

    with _progress():
        for component in chosen:
            spec = component.spec
            label = f"{spec.kind} {spec.name}"
            faults = list(component_findings(spec)) or list(settings_findings(registry, component))
            if runs_suites and not faults and _conformance().suite_of(spec.kind, spec.name):
                faults = run_checks(spec.kind, spec.name, label, PROTOCOLS)
                note(component)
            findings += [(label, finding) for finding in faults]
        for _, folder in folders if names and not findings else ():
            # presets would repeat the findings of their components
            path = configuration_folder(folder)
            findings += [("plugin", finding) for finding in preset_findings(path)]
        for name in plugins if runs_suites else ():
            label = f"plugin {name}"
            faults = run_checks("hook", name, label, HOOKSPECS)
            findings += [(label, finding) for finding in faults]
    causes = _by_cause(findings)
    for labels, finding in causes:
        print(_format_finding(labels, finding))
    for label, reason in left_out:
        print(f"{label}: not checked: {reason}")
    scope = "names and signatures"
    if runs_suites:
        scope = "conformance checks too" + (", and those of its hooks" if plugins else "")
    warnings = sum(finding.warning for _, finding in causes)
    counts = [
        _counted(len(causes) - warnings, "finding"),
        *([_counted(warnings, "warning")] if warnings else []),
        *([f"{_counted(len(left_out), 'check')} left out"] if left_out else []),
    ]
    print(f"{_counted(len(chosen), 'component')} checked ({scope}): {', '.join(counts)}")
    return int(len(causes) > warnings)


def _format_finding(labels: Sequence[str], finding: Finding) -> str:
    """Return a finding as lines of text.

    Args:
        labels: the components and plugins that have it.
    """
    others = f" (and {', '.join(labels[1:])})" if labels[1:] else ""
    warning = "warning: " if finding.warning else ""
    lines = [f"{labels[0]}{others}: {warning}{finding.fault}"]
    if finding.also:
        lines.append(f"  also: {', '.join(finding.also)}")
    return "\n".join([*lines, f"  contract: {finding.contract}", f"  fix: {finding.fix}"])


def _by_cause(findings: Sequence[tuple[str, Finding]]) -> list[tuple[list[str], Finding]]:
    """Merge findings that have the same cause.

    Returns:
        (labels of all findings with this cause, the first of them) for each cause.
    """
    causes: dict[tuple[str, str], tuple[list[str], Finding]] = {}
    for label, finding in findings:
        key = finding.cause or finding.fault, finding.fix
        labels, _ = causes.setdefault(key, ([], finding))
        if label not in labels:
            labels.append(label)
    return list(causes.values())


def _checks_to_skip(
    words: Sequence[str], chosen: Sequence[Component], plugins: Sequence[str], runs_suites: bool
) -> set[str]:
    """Return the names of the conformance checks to leave out.

    Args:
        words: names from the command line, as the checks are printed.
        chosen, plugins: the components and plugins that are checked.
        runs_suites: whether conformance checks run at all.

    Raises:
        ConfigError: a name is no check of these components and plugins, or no checks run.
    """
    if not words:
        return set()
    if not runs_suites:
        raise ConfigError(
            "--skip skips conformance checks, but this call runs none",
            hint="rlcore check KIND NAME --skip CHECK, without --quick",
        )
    conformance = _conformance()
    from rlcore_testing.conformance.base import sentence

    subjects: list[tuple[str, str]] = [
        (component.spec.kind, component.spec.name) for component in chosen
    ]
    subjects += [("hook", plugin) for plugin in plugins]
    suites = [conformance.suite_of(kind, name) for kind, name in subjects]
    checks = {check for suite in suites if suite is not None for check in suite.checks()}
    skip = set()
    for word in words:
        check = sentence(word)
        if check not in checks:
            raise ConfigError(f"there is no check {word!r}{choices_message(check, checks)}")
        skip.add(check)
    return skip


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


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
    handler = _Progress()
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        handler.close()


def _parse_settings(words: Sequence[str]) -> dict[str, Any]:
    pairs = [word.partition("=") for word in words]
    return {key: yaml.safe_load(value) for key, _, value in pairs}


def _select(
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
    components = [component for kind in KINDS for component in registry.components(kind)]
    if not names:
        return components, plugins, {}
    if len(names) == 2 and names[0] in KINDS:
        kind = names[0]
        name = names[1]
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
        return [component for component in components if component.plugin == name], [name], {}
    matches = [component for component in components if component.spec.name == name]
    if not matches and not any(row.name == name for row in registry.rows()):
        choices = {*plugins, *(component.spec.name for component in components)}
        raise registry.not_found("plugin or component", name, choices)
    return matches, [], {}


def _unusable_plugins(registry: Registry, names: Sequence[str]) -> Iterator[tuple[str, Finding]]:
    plugins = entry_points(group="rlcore.plugins")
    owners = {plugin.dist.name for plugin in plugins if plugin.dist and plugin.name in names}
    for row in registry.rows():
        owned = row.kind != "plugin" and row.distribution in owners
        if row.status == "BAD" and (not names or row.name in names or owned):
            fix = "docs/plugins.md, When something is wrong"
            yield f"{row.kind} {row.name}", Finding(row.reason, HOOKSPECS, fix)


def _config_folders(registry: Registry, plugin: str) -> list[str]:
    """Return the configuration folders of a plugin, from its hook `rlcore_config_paths`."""
    hook = getattr(registry.manager.get_plugin(plugin), "rlcore_config_paths", None)
    return [] if hook is None else [str(folder) for folder in hook()]


def _findings(failures: Sequence[Any], contract: str) -> Iterator[Finding]:
    """Yield one finding for each cause of failed conformance checks.

    Args:
        failures: findings of a conformance report.
        contract: where the contract is defined that was checked.
    """
    causes: dict[tuple[str, bool], list[Any]] = {}
    for finding in failures:
        causes.setdefault((finding.cause, finding.warning), []).append(finding)
    for (_, warning), (first, *others) in causes.items():
        more = f", and {_counted(len(others), 'check')} more" if others else ""
        yield Finding(
            f"{first.check}{more}: {first.message}",
            contract,
            first.hint,
            warning,
            cause=first.cause,
            also=tuple(finding.check for finding in others),
        )


def _conformance() -> Any:
    """Return the module that runs conformance checks, :mod:`rlcore_testing.conformance.suites`.

    Raises:
        ConfigError: rlcore-testing is not installed.
    """
    try:
        from rlcore_testing.conformance import suites
    except ImportError as error:
        raise ConfigError(
            "the conformance checks need rlcore-testing, not installed",
            hint=f"{install_command(['testing'])}; or --quick, without them",
        ) from error
    return suites
