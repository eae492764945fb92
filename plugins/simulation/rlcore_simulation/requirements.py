"""Compare what an env's simulators need with what their interpreter has. Light.

A plugin's ComponentSpec has `requirements` and `requires_python`; an interpreter reports its
version and its packages.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlcore.contracts.specs import ComponentSpec
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


def of_note(interpreter: Interpreter, spec: ComponentSpec | None = None) -> dict[str, str]:
    """Versions of numpy and of what an env's simulators need, as far as it is there."""
    from packaging.utils import canonicalize_name

    names = set(map(canonicalize_name, ["numpy", *(spec.requirement_names if spec else ())]))
    found = interpreter.packages.items()
    return dict(sorted(pair for pair in found if canonicalize_name(pair[0]) in names))


def fits(version: str, wanted: str | None) -> bool:
    """Whether a version is one of those wanted; any is where none are said."""
    from packaging.specifiers import SpecifierSet

    return wanted is None or version in SpecifierSet(wanted)
