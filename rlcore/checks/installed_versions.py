"""Compare the versions of installed distributions with what others ask for. Light.

pip compares them when it installs, but installs a conflicting version nevertheless. A distribution
that is not installed is no conflict: a component that needs it can't be imported.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from rlcore.checks.doctor_rows import Row, row
from rlcore.plugins.distributions import folders, headers, normal

Asked = Mapping[str, SpecifierSet]
"""The versions of one distribution that others ask for, by the name of the other one."""


def version_rows(without_dependencies: Collection[str] = ()) -> Iterator[Row]:
    """Yield a warning for each distribution whose version another one excludes, or else one "ok".

    Args:
        without_dependencies: distributions that are installed without their dependencies.
    """
    versions, asked = _installed({normal(name) for name in without_dependencies})
    conflicts = {
        name: {other: asks for other, asks in by.items() if not _allows(asks, versions[name])}
        for name, by in asked.items()
    }
    for name, against in sorted(conflicts.items()):
        if against:
            demands = ", ".join(f"{other} asks for {name}{asks}" for other, asks in against.items())
            fix = _fix(name, asked[name], against)
            yield row(name, f"{versions[name]} is installed, {demands}", "warning", fix)
    if not any(conflicts.values()):
        yield row("versions", f"{len(versions)} distributions suit each other")


def _installed(
    without_dependencies: Collection[str],
) -> tuple[dict[str, str], dict[str, dict[str, SpecifierSet]]]:
    """Return the version of each distribution, and what others ask of it, by normal names."""
    versions: dict[str, str] = {}
    requirements: dict[str, list[str]] = {}
    for name, folder in folders().items():
        fields = headers(folder)
        versions[name] = dict(fields).get("Version", "")
        if name not in without_dependencies:
            requirements[name] = [value for field, value in fields if field == "Requires-Dist"]
    asked: dict[str, dict[str, SpecifierSet]] = defaultdict(dict)
    for other, texts in requirements.items():
        for requirement in _parsed(texts):
            name = normal(requirement.name)
            if name in versions:
                known = asked[name].get(other, SpecifierSet())
                asked[name][other] = known & requirement.specifier
    return versions, asked


def _parsed(texts: Collection[str]) -> Iterator[Requirement]:
    """Yield the requirements that hold here, without those of extras."""
    for text in texts:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:  # some old distributions have one, which pip ignores too
            continue
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield requirement


def _allows(asks: SpecifierSet, version: str) -> bool:
    """Return whether a version is asked for; a version of another form than PEP 440's always is."""
    try:
        return asks.contains(Version(version), prereleases=True)
    except InvalidVersion:
        return True


def _fix(name: str, by: Asked, against: Asked) -> str:
    """Return the command that installs a version which suits all, or how to do without it."""
    every = SpecifierSet()
    for asks in by.values():
        every &= asks
    named = [specifier.version.removesuffix(".*") for specifier in every]
    # a range that holds any version holds one of those at its ends, or one just above
    if any(_allows(every, version) for end in named for version in (end, f"{end}.1")):
        return f'pip install "{name}{every}"'
    return f"no version suits all: give {' and '.join(against)} an environment of its own"
