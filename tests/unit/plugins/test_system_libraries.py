"""Imports that fail as the system lacks a library."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlcore.contracts.errors import PluginError
from rlcore.plugins import system_libraries
from rlcore.plugins.import_target import load_target

REASON = "cannot open shared object file: No such file or directory"


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that has two of the libraries."""
    there = ("libX11.so.6", "libglib-2.0.so.0")
    monkeypatch.setattr(system_libraries, "loads", lambda file: file in there)


def test_all_that_is_missing_is_named_at_once(bare: None) -> None:
    """The import names libGL only, and the next one would name libSM."""
    assert (
        system_libraries.install_hint(f"libGL.so.1: {REASON}")
        == "apt-get install -y libgl1 libsm6 libxext6"
    )


def test_the_library_that_was_not_found_is_named_though_it_loads_here(bare: None) -> None:
    """As it was another machine, or another process, that did not find it."""
    command = "apt-get install -y libx11-6 libgl1 libsm6 libxext6"
    assert system_libraries.install_hint(f"ImportError: libX11.so.6: {REASON}") == command


def test_of_another_library_only_the_file_is_known() -> None:
    hint = system_libraries.install_hint(f"libacme-2.so.1.0: {REASON}")
    assert hint is not None and "libacme-2.so.1.0" in hint and "apt-get" not in hint


def test_imports_that_fail_for_another_reason_are_left_alone() -> None:
    assert system_libraries.install_hint("No module named 'libGL'") is None


def test_a_library_loads_if_the_linker_finds_it() -> None:
    assert system_libraries.loads("libc.so.6") and not system_libraries.loads("libacme-2.so.1.0")


def test_a_component_that_can_not_be_loaded_names_the_packages_to_install(
    bare: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused
) -> None:
    (tmp_path / "acme_linked.py").write_text(f"raise ImportError('libGL.so.1: {REASON}')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with refused(PluginError, "acme_linked:make", "apt-get install -y libgl1 libsm6 libxext6"):
        load_target("acme_linked:make")
