"""Define the base of the conformance suites: pytest classes whose methods check one component.

    class TestMyEnv(EnvConformance):        check("env", "my_env", max_episode_steps=40)
        name = "my_env"                       -> [Finding(check, message, hint), ...]
        settings = {"max_episode_steps": 40}

A check is a method `test_...` that asserts. The message of an assertion says what is wrong and what
was expected; the text after `hint:` says how to fix it. pytest collects subclasses, and
:meth:`Conformance.report` runs the same methods for `rlcore check`. This module depends on no kind
of component and no tensor library.
"""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields
from traceback import walk_tb
from typing import Any, ClassVar, TypeVar
from unittest import SkipTest

import numpy as np
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rlcore.config.bind import SLOTS
from rlcore.config.catalog import TYPE_KEYS
from rlcore.config.schema import Settings
from rlcore.contracts.errors import ConfigError, UserError
from rlcore.contracts.specs import ComponentSpec, Kind
from rlcore.plugins.extras import is_ours
from rlcore.plugins.import_target import load_target
from rlcore.plugins.registry import load_plugins
from rlcore.validation.faults import NUMBERS, Fault

HEAVY = ("torch", "ray", "gymnasium", "transformers", "jax")
"""Packages that listing, checking and planning a run must not import."""
HINT = "\n  hint: "
"""Separates a finding from its remedy in the message of an assertion."""
PROGRESS = logging.getLogger("rlcore_testing")
"""Logger that gets a message as each check begins."""

Subject = TypeVar("Subject")


@dataclass(frozen=True)
class Finding:
    """A check that failed.

    Attributes:
        check: its name as a sentence.
        message: what is wrong and what was expected.
        hint: how to fix it.
        warning: whether the finding may be intended (:attr:`Conformance.may_be_intended`).
        cause: key by which findings with a common cause are grouped: for an unexpected exception
            its type and line, otherwise the component and the hint.
    """

    check: str
    message: str
    hint: str
    warning: bool = False
    cause: str = field(default="", compare=False)


@dataclass(frozen=True)
class LeftOut:
    """A check that was skipped.

    Attributes:
        check: its name as a sentence.
        reason: why it does not apply, or that the user asked to skip it.
    """

    check: str
    reason: str


@dataclass(frozen=True)
class Report:
    """The results of a component's checks.

    Attributes:
        findings: checks that failed.
        left_out: checks that were skipped.
    """

    findings: list[Finding]
    left_out: list[LeftOut]


class Conformance:
    """Base of the checks of one component under given settings.

    Attributes:
        name: the component's registered name.
        settings: keys that differ from their defaults; a section is a mapping.
        light: targets of the component whose modules must import none of :data:`HEAVY`.
        may_be_intended: names of checks that `rlcore check` reports as warnings.
        thorough: class attributes that `rlcore check` sets to enable longer checks.
    """

    kind: ClassVar[Kind]
    name: ClassVar[str] = ""
    settings: ClassVar[Mapping[str, Any]] = {}
    light: ClassVar[Sequence[str]] = ("config", "spec")
    may_be_intended: ClassVar[Collection[str]] = ()
    thorough: ClassVar[Mapping[str, Any]] = {}
    _made: ClassVar[dict[Any, Any]]
    _closing: ClassVar[ExitStack]

    def __init_subclass__(cls) -> None:
        cls._made = {}
        cls._closing = ExitStack()

    @classmethod
    def setup_class(cls) -> None:
        """Prepare the checks; pytest calls it before the first one."""

    @classmethod
    def teardown_class(cls) -> None:
        """Close and drop the objects that checks share; pytest calls it after the last one."""
        cls._made.clear()
        cls._closing.close()

    # -- the component ------------------------------------------------------------------------

    def component(self) -> ComponentSpec:
        """Return the component's registration. Override it for an unregistered component."""
        return load_plugins().get(self.kind, self.name).spec

    def config(self, **changes: Any) -> Any:
        """Return the component's settings with `changes`, frozen as in a run.

        Raises:
            ConfigError: a key is unknown, or a value has the wrong type.
        """
        return self.shared(("config", repr(sorted(changes.items()))), lambda: self._bound(changes))

    def _bound(self, changes: Mapping[str, Any]) -> Settings:
        spec = self.component()
        defaults = self._settings_class()(**{TYPE_KEYS[self.kind]: spec.name})
        try:
            merged = OmegaConf.merge(
                OmegaConf.structured(defaults), dict(self.settings), dict(changes)
            )
            settings: Any = OmegaConf.to_object(merged)
        except OmegaConfBaseException as error:
            reason = str(error).partition("\n")[0]
            raise ConfigError(f"settings of {type(defaults).__name__}: {reason}") from None
        settings.freeze()
        return settings

    def _settings_class(self) -> Any:
        path = self.component().config
        return _settings_base(self.kind) if path is None else load_target(path)

    def shared(self, key: Any, make: Callable[[], Subject]) -> Subject:
        """Return the cached object of `key`, which the class's first call builds with `make`."""
        if key not in self._made:
            self._made[key] = make()
        cached: Subject = self._made[key]
        return cached

    # -- checks of all kinds ------------------------------------------------------------------

    def test_settings_and_facts_load_nothing_heavy(self) -> None:
        """Every command imports them, also on a machine without the simulator."""
        spec = self.component()
        targets = [target for target in (getattr(spec, name) for name in self.light) if target]
        modules = sorted({target.partition(":")[0] for target in targets})
        require_light(
            "".join(f"import {name}\n" for name in modules),
            f"importing {' and '.join(modules)}",
            "import what is heavy inside the functions that need it; keep settings and spec "
            "function in modules of their own",
        )

    def test_every_key_of_its_settings_has_a_help_text(self) -> None:
        base = _settings_base(self.kind)
        if base is None:
            return
        settings_class = self._settings_class()
        assert isinstance(settings_class, type) and issubclass(settings_class, base), (
            f"{self.component().config} is {settings_class!r}, expected a dataclass that extends "
            f"{base.__name__}\n  hint: subclass it: core reads the keys all components of a kind "
            "share"
        )
        require(
            f"the list of keys of {settings_class.__name__} without a help text",
            [key.name for key in fields(settings_class) if not key.metadata.get("help")],
            [],
            'declare keys as name: type = key("what it means, with its unit", default)',
        )

    def require_planned(self, label: str, real: Any, *arguments: Any, apart: str = "") -> None:
        """Require that a component's spec equals the one that its spec function returns.

        Args:
            label: name of the spec, for messages.
            real: the spec that the component itself has.
            arguments: arguments of the spec function after the settings.
            apart: names of fields that may differ, separated by spaces.
        """
        path = self.component().spec
        assert path is not None, (
            "the component names no spec function, expected spec='module:function'\n  hint: "
            "without one nothing can be checked before its workers start"
        )
        planned = load_target(path)(self.config(), *arguments)
        for entry in fields(planned):
            got = getattr(real, entry.name)
            expected = getattr(planned, entry.name)
            assert entry.name in apart.split() or got == expected, (
                f"{label}.{entry.name} is {got!r}, but the spec function gave {expected!r}"
                f"\n  hint: take {label} from the spec function"
            )

    # -- running them without pytest ------------------------------------------------------------

    @classmethod
    def checks(cls) -> dict[str, str]:
        """Return the names of check methods, by sentence, except those a subclass set to None."""
        methods = [name for name in dir(cls) if name.startswith("test_") and getattr(cls, name)]
        return {sentence(name): name for name in sorted(methods)}

    @classmethod
    def report(cls, skip: Collection[str] = ()) -> Report:
        """Run all checks except those to skip.

        Args:
            skip: names of checks, as sentences.
        """
        report = Report([], [])
        checks = cls.checks()
        cls.setup_class()
        try:
            for number, (check, method) in enumerate(checks.items(), 1):
                PROGRESS.info("%s: %d of %d, %s", cls.name, number, len(checks), check)
                try:
                    skip_unless(check not in skip, "as asked for")
                    getattr(cls(), method)()
                except SkipTest as reason:
                    report.left_out.append(LeftOut(check, str(reason)))
                except Exception as error:  # any exception of a component is a finding
                    report.findings.append(cls._finding(check, method, error))
        finally:
            cls.teardown_class()
        return report

    @classmethod
    def _finding(cls, check: str, method: str, error: Exception) -> Finding:
        message, asserted, hint = str(error).partition(HINT)
        if isinstance(error, UserError):  # raised, for example, by core's own checks
            message = error.message.partition("\nTraceback")[0]
            hint = error.hint or ""
        elif not asserted:
            kind = type(error).__name__
            place = _place(error)
            message = f"it raised {kind}: {error} ({place})"
            hint = "run the check with pytest to see the traceback"
            return Finding(check, message, hint, cause=f"{kind} {place}")
        cause = f"{cls.name}: {hint or message}"
        return Finding(check, message, hint, method in cls.may_be_intended, cause)


def sentence(name: str) -> str:
    """Return a check's name as a sentence: `test_closing_twice_is_safe` -> `closing twice is safe`.

    Hyphens and spaces are accepted in place of underscores.
    """
    return re.sub(r"[-_\s]+", " ", name.strip().removeprefix("test_"))


def _place(error: Exception) -> str:
    """Return `file:line` of the statement of a third-party component that raised an error.

    That is the innermost frame of the first package on the traceback that is neither part of rlcore
    nor of the standard library, or the innermost frame if there is no such package.
    """
    frames = [
        (frame.f_globals.get("__name__", "").partition(".")[0], frame.f_code.co_filename, line)
        for frame, line in walk_tb(error.__traceback__)
    ]
    packages = [package for package, _, _ in frames if not _is_passed_through(package)]
    own = [frame for frame in frames if frame[0] in packages[:1]] or frames
    return f"{own[-1][1]}:{own[-1][2]}"


def _is_passed_through(package: str) -> bool:
    """Return whether a package is rlcore, one of its plugins, pluggy or the standard library."""
    return package in ("", "pluggy", *sys.stdlib_module_names) or is_ours(package)


def _settings_base(kind: Kind) -> Any:
    """Return the class of settings that a kind's components extend; None if they have none."""
    return next((slot.base for slot in SLOTS if slot.kind == kind), None)


# -- what checks assert -------------------------------------------------------------------------


def skip_unless(applies: bool, reason: str) -> None:
    """Skip the current check unless it applies."""
    if not applies:
        raise SkipTest(reason)


def require(label: str, got: Any, expected: Any, hint: str) -> None:
    """Require that a value equals the expected one; for arrays see :func:`require_equal`."""
    assert got == expected, f"{label} is {got!r}, expected {expected!r}\n  hint: {hint}"


def require_refused(label: str, call: Callable[[], Any], hint: str) -> str:
    """Require that a call raises a :class:`UserError`; return its message."""
    try:
        result = call()
    except UserError as error:
        return str(error)
    except Exception as error:
        result = error
    raise AssertionError(
        f"{label} gave {result!r}, expected a rlcore.contracts.errors.UserError\n  hint: {hint}"
    )


def require_light(code: str, label: str, hint: str, packages: Sequence[str] = HEAVY) -> None:
    """Require that `code` runs in a new interpreter and imports none of `packages`.

    Args:
        label: what the code does, for the message.
    """
    script = f"{code}\nimport json, sys\nprint(json.dumps([*sys.modules]))"
    completed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert not completed.returncode, (
        f"it fails in a new interpreter: {completed.stderr.strip().rpartition(chr(10))[2]}"
        f"\n  hint: look at the traceback of this code:\n{code}"
    )
    loaded = sorted({*json.loads(completed.stdout.splitlines()[-1])} & {*packages})
    assert not loaded, f"{label} loads {', '.join(loaded)}, expected none of them\n  hint: {hint}"


def require_valid(call: str, fault: Fault | None) -> None:
    """Require that a run would accept a value (see :mod:`rlcore.validation`)."""
    assert fault is None, (
        f"{call}{'' if fault.row is None else f', row {fault.row}'}: {fault}\n  hint: {fault.hint}"
    )


def require_equal(label: str, got: Any, expected: Any, hint: str, *, atol: float = 0.0) -> None:
    """Require equal arrays: bitwise if `atol` is 0, else within `atol`. NaN equals itself."""
    got = np.asarray(got)
    expected = np.asarray(expected)
    assert got.shape == expected.shape, (
        f"{label}: got shape {list(got.shape)}, expected {list(expected.shape)}\n  hint: {hint}"
    )
    numbers = all(array.dtype.kind in NUMBERS for array in (got, expected))
    near = atol and numbers  # text has no tolerance
    wrong = ~np.isclose(got, expected, rtol=0, atol=atol) if near else got != expected
    wrong &= (got == got) | (expected == expected)
    places = [tuple(place) for place in np.argwhere(wrong).tolist()[:1]]
    assert not places, (
        f"{label}: {int(wrong.sum())} of {wrong.size} entries differ, first at {list(places[0])}: "
        f"got {got[places[0]]}, expected {expected[places[0]]}\n  hint: {hint}"
    )


def require_arrays(
    label: str,
    got: Mapping[str, Any],
    expected: Mapping[str, Any],
    hint: str,
    *,
    atol: float = 0.0,
) -> None:
    """Require for each expected array an equal one of that name, by :func:`require_equal`."""
    for name, array in expected.items():
        require_equal(f"{name} {label}", got.get(name, np.nan), array, hint, atol=atol)
