"""Tested versions of simulators: code, `pyproject.toml`, this installation and the page agree."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from test_dependencies import PROJECTS, ROOT, extras, listed

from rlcore.contracts.component import ComponentSpec, SimulatorVersions
from rlcore.plugins.registry import load_plugins

PAGE = ROOT / "docs" / "tested-versions.md"
ENVS = [component.spec for component in load_plugins().components("env")]
LIBRARIES: dict[str, SimulatorVersions] = {
    canonicalize_name(library.distribution): library for spec in ENVS for library in spec.tested
}


def asked() -> Iterator[tuple[Path, Requirement]]:
    """What each of our distributions asks pip for, and what its commands install."""
    for project in PROJECTS:
        texts = [*listed(project, "dependencies"), *extras(project)]
        texts += listed(project, "installed-by-command", missing="[]")
        for text in texts:
            yield project, Requirement(text)


@pytest.mark.parametrize("spec", ENVS, ids=lambda spec: spec.name)
def test_envs_that_share_a_library_share_its_range(spec: ComponentSpec) -> None:
    for library in spec.tested:
        assert LIBRARIES[canonicalize_name(library.distribution)] is library


@pytest.mark.parametrize("name", LIBRARIES)
def test_no_project_asks_for_versions_that_are_refused(name: str) -> None:
    library = LIBRARIES[name]
    for project, requirement in asked():
        if canonicalize_name(requirement.name) != name:
            continue
        if library.reason:
            assert requirement.specifier == SpecifierSet(library.tested), project
        else:  # others are warned of; the tested ones must be among those that pip may take
            assert library_versions(library) <= set(requirement.specifier.filter(CANDIDATES))


CANDIDATES = [f"{major}.{minor}.{micro}" for major in range(5) for minor in range(12)
              for micro in range(12)]  # fmt: skip


def library_versions(library: SimulatorVersions) -> set[str]:
    return set(SpecifierSet(library.tested).filter(CANDIDATES))


@pytest.mark.parametrize("spec", ENVS, ids=lambda spec: spec.name)
def test_an_environment_of_its_own_gets_tested_versions(spec: ComponentSpec) -> None:
    required = {
        canonicalize_name(one.name): one.specifier
        for one in (Requirement(text.removesuffix(" --no-deps")) for text in spec.requirements)
    }
    for library in spec.tested:
        specifier = required.get(canonicalize_name(library.distribution))
        if library.reason:
            assert specifier == SpecifierSet(library.tested)
        else:
            assert specifier is None or library_versions(library) <= set(
                specifier.filter(CANDIDATES)
            )


@pytest.mark.parametrize("name", LIBRARIES)
def test_this_installation_is_a_tested_one(name: str) -> None:
    assert metadata.version(name) in SpecifierSet(LIBRARIES[name].tested)


def test_mujocos_range_ends_where_results_change() -> None:
    """LIBERO-Object's floors darken with 3.3.3; boxes touch otherwise from 3.4.0 on."""
    tested = SpecifierSet(LIBRARIES["mujoco"].tested)
    assert all(version in tested for version in ("3.2.7", "3.3.0", "3.3.1", "3.3.2"))
    beyond = ("2.3.7", "3.2.6", "3.3.3", "3.3.7", "3.4.0", "3.8.1", "4.0.0", "3.3.3.dev1")
    assert not any(tested.contains(version, prereleases=True) for version in beyond)


def test_the_page_has_a_row_for_each_library() -> None:
    rows = re.findall(r"^\| `([^`]+)` \| `([^`]+)` \| (\w+)", PAGE.read_text(), re.MULTILINE)
    listed = {canonicalize_name(name): (tested, beyond) for name, tested, beyond in rows}
    assert listed == {
        name: (library.tested, "refused" if library.reason else "warned")
        for name, library in LIBRARIES.items()
    }
