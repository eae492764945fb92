"""Which Vulkan driver SAPIEN gets, on machines of all kinds."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from rlcore_sapien import vulkan

from rlcore.contracts.errors import AssetError


@pytest.fixture
def no_driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without drivers; returns its folder for them."""
    for name in vulkan.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(vulkan, "NVIDIA_LIBRARY", "librlcore_no_such.so.1")
    monkeypatch.setattr(vulkan, "FOLDERS", (tmp_path,))
    return tmp_path


def test_the_software_driver_is_found_by_its_file(refused, no_driver: Path) -> None:
    file = no_driver / "lvp_icd.x86_64.json"
    file.write_text('{"ICD": {"library_path": "libc.so.6"}}')
    assert vulkan.environment() == {
        "VK_ICD_FILENAMES": str(file),
        "SAPIEN_DISABLE_RAY_TRACING": "1",
    }
    file.write_text('{"ICD": {"library_path": "librlcore_no_such.so.1"}}')
    with refused(AssetError, "no Vulkan driver", text=False):  # names this machine's packages
        vulkan.environment()


def test_a_cards_own_driver_needs_no_variable(
    no_driver: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vulkan, "NVIDIA_LIBRARY", "libc.so.6")
    monkeypatch.setattr(vulkan, "CARDS", (str(no_driver / "nvidia[0-9]*"),))
    lavapipe = no_driver / "lvp_icd.x86_64.json"
    lavapipe.write_text('{"ICD": {"library_path": "libc.so.6"}}')
    assert vulkan.environment()["VK_ICD_FILENAMES"] == str(lavapipe)  # a library without a card
    (no_driver / "nvidia0").touch()
    assert vulkan.environment() == {}


def test_debian_12_takes_the_driver_from_its_backports(
    no_driver: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = no_driver / "os-release"
    monkeypatch.setattr(vulkan, "OS_RELEASE", release)
    for codename, backports in (("bookworm", True), ("trixie", False)):
        release.write_text(f'PRETTY_NAME="Debian"\nVERSION_CODENAME={codename}\n')
        hint = vulkan.install_command()
        assert "mesa-vulkan-drivers" in hint
        assert ("install -y -t bookworm-backports" in hint) == backports


def test_a_driver_of_the_user_is_kept_and_must_exist(
    refused, no_driver: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VK_ICD_FILENAMES", str(no_driver / "lvp.json"))
    with refused(AssetError, "VK_ICD_FILENAMES", no_driver / "lvp.json", text=False):
        vulkan.environment()
    (no_driver / "lvp.json").touch()
    assert vulkan.environment() == {"SAPIEN_DISABLE_RAY_TRACING": "1"}


def test_a_library_that_sapien_is_linked_with_is_not_taken_for_a_missing_driver(
    refused, no_driver: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that looks for a device runs, and its SAPIEN can't be imported."""
    monkeypatch.setenv("VK_ICD_FILENAMES", str(no_driver / "lvp.json"))
    (no_driver / "lvp.json").touch()
    error = "ImportError: libX11.so.6: cannot open shared object file: No such file or directory"
    script = f"import sys; sys.exit({error!r})"
    monkeypatch.setattr(vulkan.interpreters, "command", lambda _: [sys.executable, "-c", script])
    with refused(AssetError, "libX11.so.6", "apt-get install -y libx11-6", text=False):
        vulkan.tried_driver()
