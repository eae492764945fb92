"""Compare what an env's simulators need with what their interpreter has. Light.

A plugin's ComponentSpec has `requirements`, `requires_python` and `tested`; an interpreter reports
its version and its packages.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import metadata

from rlcore.contracts.specs import ComponentSpec, SimulatorVersions
from rlcore_simulation.interpreters import Interpreter

ALONE = " --no-deps"
"""Behind a requirement that is installed without what it asks for."""


def lacking(interpreter: Interpreter, spec: ComponentSpec) -> Iterator[tuple[str, str]]:
    """(what is required, what is there instead) of all that an env's simulators need and an
    interpreter has not."""
    # not needed by whoever only starts one
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    if not fits(interpreter.version, spec.requires_python):
        yield f"Python {spec.requires_python}", interpreter.version
    there = {canonicalize_name(name): version for name, version in interpreter.packages.items()}
    major, minor, *_ = interpreter.version.split(".")
    about = {"python_version": f"{major}.{minor}", "python_full_version": interpreter.version}
    for text in spec.requirements:
        wanted = Requirement(text.removesuffix(ALONE))
        if wanted.marker is not None and not wanted.marker.evaluate(about):
            continue
        version = there.get(canonicalize_name(wanted.name))
        if version is None or not wanted.specifier.contains(version, prereleases=True):
            yield f"{wanted.name}{wanted.specifier}", version or "not installed"


def own_interpreter(spec: ComponentSpec) -> Interpreter:
    """rlcore's own interpreter, with those of its packages that an env's simulators need."""
    names = {*spec.requirement_names, *(library.distribution for library in spec.tested)}
    packages = {}
    for name in names:
        with suppress(metadata.PackageNotFoundError):
            packages[name] = metadata.version(name)
    return Interpreter(sys.executable, platform.python_version(), packages)


def tested_there(
    packages: Mapping[str, str], spec: ComponentSpec
) -> Iterator[tuple[SimulatorVersions, str, bool]]:
    """Compare the libraries that decide an env's results with the versions that were tested.

    Args:
        packages: versions of what is installed, by name.

    Returns:
        (library, its version there, whether that was tested) of each that is installed.
    """
    from packaging.specifiers import SpecifierSet
    from packaging.utils import canonicalize_name
    from packaging.version import InvalidVersion

    there = {canonicalize_name(name): version for name, version in packages.items()}
    for library in spec.tested:
        version = there.get(canonicalize_name(library.distribution))
        if version is None:
            continue
        try:
            tested = SpecifierSet(library.tested).contains(version, prereleases=True)
        except InvalidVersion:  # somebody's own build
            tested = False
        yield library, version, tested


def of_note(interpreter: Interpreter, spec: ComponentSpec | None = None) -> dict[str, str]:
    """Versions of numpy and of what an env's simulators need, as far as it is there."""
    from packaging.utils import canonicalize_name

    decides = [library.distribution for library in spec.tested] if spec else []
    needed = spec.requirement_names if spec else []
    names = set(map(canonicalize_name, ["numpy", *needed, *decides]))
    found = interpreter.packages.items()
    return dict(sorted(pair for pair in found if canonicalize_name(pair[0]) in names))


def fits(version: str, wanted: str | None) -> bool:
    """Whether a version is one of those wanted; any is where none are said."""
    from packaging.specifiers import SpecifierSet

    return wanted is None or version in SpecifierSet(wanted)
