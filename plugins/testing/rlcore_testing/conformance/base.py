"""Define the base of the conformance classes of envs, policies and algorithms.

    class TestMyEnv(EnvConformance):        check_env("my_env", max_episode_steps=40)
        name = "my_env"                       -> [Finding(check, message, hint), ...]
        settings = {"max_episode_steps": 40}

A check is a method `test_...` that raises :class:`Deviation`. pytest collects the subclass; the
functions run the same methods. This module depends on no kind of component, no test runner and no
tensor library.
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
from rlcore.validation.faults import NUMBERS, Fault, array_fault

HEAVY = ("torch", "ray", "gymnasium", "transformers", "jax")
"""What listing, checking and planning a run must not load."""

PROGRESS = logging.getLogger("rlcore_testing")
"""Gets a message as each check begins."""

Subject = TypeVar("Subject")
Check = TypeVar("Check", bound="Conformance")


class Deviation(AssertionError):
    """A component violates its contract.

    Args:
        message: what is wrong and what was expected.
        hint: how to fix it.
    """

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(f"{message}\n  hint: {hint}")
        self.message, self.hint = message, hint


class Doubt(Deviation):
    """A deviation that may be intended.

    A test fails until its class disables the check; `rlcore check` only warns.
    """


@dataclass(frozen=True)
class Finding:
    """A check that did not pass.

    Attributes:
        check: its name as a sentence.
        message: what is wrong and what was expected.
        hint: how to fix it.
        warning: the deviation may be intended (:class:`Doubt`).
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
        findings: checks that did not pass.
        left_out: checks that were skipped.
    """

    findings: list[Finding]
    left_out: list[LeftOut]


class Conformance:
    """Base of the checks of one component under given settings.

    Attributes:
        name: the component's registered name.
        settings: keys that differ from their defaults; a section is a mapping.
        thorough: class attributes that :func:`report` sets to enable longer checks.
    """

    kind: ClassVar[Kind]
    name: ClassVar[str] = ""
    settings: ClassVar[Mapping[str, Any]] = {}
    thorough: ClassVar[Mapping[str, Any]] = {}
    _made: ClassVar[dict[Any, Any]]
    _closing: ClassVar[ExitStack]

    def __init_subclass__(cls) -> None:
        cls._made, cls._closing = {}, ExitStack()

    @classmethod
    def setup_class(cls) -> None:
        """Prepare the checks; called before the first one."""

    @classmethod
    def teardown_class(cls) -> None:
        """Close and drop the objects that checks share; called after the last one."""
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

        def fill() -> Settings:
            spec = self.component()
            made = _base(self.kind) if spec.config is None else load_target(spec.config)
            return _filled(made(**{TYPE_KEYS[self.kind]: spec.name}), self.settings, changes)

        return self.shared(("config", repr(sorted(changes.items()))), fill)

    def shared(self, key: Any, make: Callable[[], Subject]) -> Subject:
        """Return the cached object of `key`, which the class's first call builds with `make`."""
        if key not in self._made:
            self._made[key] = make()
        found: Subject = self._made[key]
        return found

    # -- all kinds ----------------------------------------------------------------------------

    def loaded_by(self, code: str, packages: Sequence[str]) -> list[str]:
        """Return which of `packages` a new interpreter has imported after running `code`.

        Raises:
            Deviation: the code fails.
        """
        script = f"{code}\nimport json, sys\nprint(json.dumps([*sys.modules]))"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        if done.returncode:
            reason = done.stderr.strip().rpartition("\n")[2]
            raise Deviation(f"it fails in a new interpreter: {reason}",
                            hint="look at the traceback of this code:\n" + code)  # fmt: skip
        modules = set(json.loads(done.stdout.splitlines()[-1]))
        return sorted(modules & set(packages))

    def require_told(
        self, what: str, kind: type, real: Any, *given: Any, before: str, apart: Sequence[str] = ()
    ) -> None:
        """Require that a component's spec equals the one that its spec function returns.

        Args:
            what: name of the spec, for messages.
            kind: dataclass of the spec.
            real: the spec that the component itself has.
            given: arguments of the spec function after the settings.
            before: what a run starts after it has called the function, for messages.
            apart: fields that may differ.
        """
        path = self.component().spec
        require(
            path is not None,
            "the component names no spec function, expected spec='module:function'",
            hint=f"without one nothing can be checked before {before} start",
        )
        told = load_target(str(path))(self.config(), *given)
        for name in [each.name for each in fields(kind) if each.name not in apart]:
            expected, got = getattr(told, name), getattr(real, name)
            require(
                got == expected,
                f"{what}.{name} is {got!r}, but the spec function said {expected!r}",
                hint=f"take {what} from the spec function",
            )

    def test_settings_and_facts_load_nothing_heavy(self) -> None:
        """Every command imports them, also on a machine without the simulator."""
        spec = self.component()
        named = [target for target in (spec.config, spec.spec) if target is not None]
        modules = sorted({target.partition(":")[0] for target in named})
        loaded = self.loaded_by("".join(f"import {name}\n" for name in modules), HEAVY)
        if loaded:
            raise Deviation(
                f"importing {' and '.join(modules)} loads {', '.join(loaded)}, expected neither a "
                "tensor library nor a simulator",
                hint="keep settings and spec function in modules of their own, and import inside "
                "functions what they need",
            )

    def test_every_key_of_its_settings_has_a_help_text(self) -> None:
        spec = self.component()
        made = _base(self.kind) if spec.config is None else load_target(spec.config)
        require(
            isinstance(made, type) and issubclass(made, _base(self.kind)),
            f"{spec.config} is {made!r}, expected a dataclass that extends "
            f"{_base(self.kind).__name__}",
            hint="subclass it: core reads the keys all components of a kind share",
        )
        silent = [each.name for each in fields(made) if not each.metadata.get("help")]
        require(
            not silent,
            f"{made.__name__} has no help text for {', '.join(silent)}, expected one for each key",
            hint='declare keys as name: type = key("what it means, with its unit", default)',
        )

    @classmethod
    def checks(cls) -> dict[str, str]:
        """Return the names of check methods, by sentence, except those a subclass set to None."""
        methods = [name for name in dir(cls) if name.startswith("test_") and getattr(cls, name)]
        return {sentence(name): name for name in sorted(methods)}

    @classmethod
    def findings(cls) -> list[Finding]:
        """Run all checks; return those that did not pass."""
        return cls.report().findings

    @classmethod
    def report(cls, skip: Collection[str] = ()) -> Report:
        """Run all checks except those to skip.

        Args:
            skip: names of checks, as sentences.
        """
        report, checks = Report([], []), cls.checks()
        cls.setup_class()
        try:
            for number, (check, method) in enumerate(checks.items(), 1):
                if check in skip:
                    report.left_out.append(LeftOut(check, "as asked for"))
                    continue
                PROGRESS.info("%s: %d of %d, %s", cls.name, number, len(checks), check)
                try:
                    finding = _run(getattr(cls(), method), check, cls.name)
                except SkipTest as reason:
                    report.left_out.append(LeftOut(check, str(reason)))
                    continue
                report.findings.extend([] if finding is None else [finding])
        finally:
            cls.teardown_class()
        return report


def sentence(name: str) -> str:
    """Return a check's name as a sentence: `test_closing_twice_is_safe` -> `closing twice is safe`.

    Hyphens and spaces are accepted in place of underscores.
    """
    return re.sub(r"[-_\s]+", " ", name.strip().removeprefix("test_"))


def report(
    base: type[Check], name: str, settings: Mapping[str, Any], skip: Collection[str] = ()
) -> Report:
    """Run the checks of `base`, including the thorough ones, on a component.

    Args:
        name: registered name of the component.
        settings: keys that differ from their defaults.
        skip: names of checks to skip, as sentences.
    """
    facts = {"name": name, "settings": settings, **base.thorough}
    made: type[Check] = type(base.__name__, (base,), facts)
    return made.report(skip)


def check(base: type[Check], name: str, settings: Mapping[str, Any]) -> list[Finding]:
    """Run the checks as :func:`report` does; return the findings."""
    return report(base, name, settings).findings


def _run(method: Callable[[], None], check: str, name: str) -> Finding | None:
    """Run a check; return its finding, or None if it passes. SkipTest is not caught."""
    try:
        method()
    except SkipTest:
        raise
    except Deviation as error:
        doubt = isinstance(error, Doubt)
        return Finding(check, error.message, error.hint, doubt, cause=f"{name}: {error.hint}")
    except UserError as error:  # raised, for example, by core's own checks
        message, hint = error.message.partition("\nTraceback")[0], error.hint or ""
        return Finding(check, message, hint, cause=f"{name}: {hint or message}")
    except Exception as error:  # any exception of a component is a finding
        place = _place(error)
        where = f" ({place})" if place else ""
        return Finding(
            check,
            f"it raised {type(error).__name__}: {error}{where}",
            "run the check with pytest to see the traceback",
            cause=f"{type(error).__name__} {place or _innermost(error)}",
        )
    return None


def _place(error: Exception) -> str:
    """Return `file:line` of the innermost frame in the third-party package that raised an error.

    That package is the first one on the traceback. Empty if all frames belong to rlcore or the
    standard library.
    """
    frames = [(frame.f_globals.get("__name__", "").partition(".")[0], frame, at) for frame, at in
              walk_tb(error.__traceback__)]  # fmt: skip
    theirs = [one for one in frames if not _is_passed_through(one[0])]
    own = [one for one in theirs if one[0] == theirs[0][0]]
    return f"{own[-1][1].f_code.co_filename}:{own[-1][2]}" if own else ""


def _innermost(error: Exception) -> str:
    """Return `file:line` of the statement that raised an error."""
    frame, at = [*walk_tb(error.__traceback__)][-1]
    return f"{frame.f_code.co_filename}:{at}"


def _is_passed_through(package: str) -> bool:
    """Return whether a package is rlcore, one of its plugins, pluggy or the standard library."""
    return package in ("", "pluggy", *sys.stdlib_module_names) or is_ours(package)


def _base(kind: Kind) -> Any:
    return next(slot.base for slot in SLOTS if slot.kind == kind)


def _filled(base: Settings, *layers: Mapping[str, Any]) -> Settings:
    """Return settings merged with layers, of which later ones win, as frozen settings."""
    try:
        merged = OmegaConf.merge(OmegaConf.structured(base), *map(dict, layers))
        filled = OmegaConf.to_object(merged)
    except OmegaConfBaseException as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError(f"settings of {type(base).__name__}: {reason}") from None
    assert isinstance(filled, Settings)
    filled.freeze()
    return filled


# -- requirements of checks -------------------------------------------------------------------


def require(ok: bool, message: str, *, hint: str) -> None:
    """Raise a :class:`Deviation` unless `ok`."""
    if not ok:
        raise Deviation(message, hint=hint)


def skip_unless(applies: bool, reason: str) -> None:
    """Skip the current check unless it applies."""
    if not applies:
        raise SkipTest(reason)


def require_array(
    what: str, value: Any, dtype: Any, shape: tuple[int, ...], *, hint: str = ""
) -> None:
    """Require a numpy array of a dtype and shape."""
    fault = array_fault(what, value, dtype, shape)
    if fault is not None:
        raise Deviation(f"{fault}", hint=hint or fault.hint)


def require_none(call: str, fault: Fault | None) -> None:
    """Require that env workers would accept a result (see :mod:`rlcore.validation.env`)."""
    if fault is not None:
        row = "" if fault.row is None else f", row {fault.row}"
        raise Deviation(f"{call}{row}: {fault}", hint=fault.hint)


def require_equal(what: str, got: Any, expected: Any, *, atol: float = 0.0, hint: str) -> None:
    """Require equal arrays: bitwise if `atol` is 0, else within `atol`. NaN equals itself."""
    got, expected = np.asarray(got), np.asarray(expected)
    require(
        got.shape == expected.shape,
        f"{what}: got shape {list(got.shape)}, expected {list(expected.shape)}",
        hint=hint,
    )
    numbers = all(array.dtype.kind in NUMBERS for array in (got, expected))
    near = atol and numbers  # text has no tolerance
    wrong = ~np.isclose(got, expected, rtol=0, atol=atol) if near else got != expected
    wrong &= (got == got) | (expected == expected)
    if wrong.any():
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise Deviation(
            f"{what}: {int(wrong.sum())} of {wrong.size} entries differ, first at {list(place)}: "
            f"got {got[place]}, expected {expected[place]}",
            hint=hint,
        )


def require_fields(
    names: Sequence[str], what: str, got: Any, expected: Any, *, atol: float = 0.0, hint: str
) -> None:
    """Require that the attributes `names` of two objects are equal, by :func:`require_equal`."""
    for name in names:
        own, other = getattr(got, name), getattr(expected, name)
        require_equal(f"{name} {what}", own, other, atol=atol, hint=hint)
