"""Which GL library is taken, and the error where there is none. Loads no simulator."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from rlcore_mujoco import gl

from rlcore.contracts.errors import AssetError, ConfigError


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MUJOCO_GL", raising=False)


def only(monkeypatch: pytest.MonkeyPatch, *backends: str) -> None:
    """A machine with the libraries of these backends."""
    monkeypatch.setattr(gl, "has_library", lambda backend: backend in backends)


@pytest.mark.parametrize(
    ("there", "taken"), [(("egl", "osmesa"), "egl"), (("osmesa",), "osmesa"), (("egl",), "egl")]
)
def test_egl_is_taken_and_osmesa_where_it_is_missing(
    monkeypatch: pytest.MonkeyPatch, there: tuple[str, ...], taken: str
) -> None:
    only(monkeypatch, *there)
    assert gl.choose_gl() == taken


def test_mujoco_gl_of_the_user_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, "egl", "osmesa")
    monkeypatch.setenv("MUJOCO_GL", " OSMesa ")
    assert gl.choose_gl() == "osmesa"
    monkeypatch.setenv("MUJOCO_GL", "glfw")  # needs a display, and who sets it has one
    assert gl.choose_gl() == "glfw"


def test_an_unknown_backend_is_refused(refused, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUJOCO_GL", "osmessa")
    with refused(ConfigError, "osmessa", "osmesa", "MUJOCO_GL"):
        gl.choose_gl()


def test_the_requested_library_is_the_one_to_install(
    refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    only(monkeypatch, "egl")
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    with refused(AssetError, "osmesa", "apt-get install -y libosmesa6"):
        gl.choose_gl()


def test_no_variable_is_needed_elsewhere_than_on_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch)
    monkeypatch.setattr(sys, "platform", "darwin")
    assert gl.choose_gl() is None
    (check,) = gl.doctor_checks("arm")
    assert (check["status"], check["detail"]) == ("ok", "the platform's own")


def test_a_library_that_does_not_exist_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(gl.LIBRARIES, "egl", ("rlcore_no_such", "librlcore_no_such.so.1"))
    assert not gl.has_library("egl")


def test_the_doctor_names_the_env_and_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch)
    (check,) = gl.doctor_checks("arm")
    assert (check["name"], check["status"]) == ("arm: GL library", "missing")
    assert "egl or osmesa" in check["detail"]
    assert check["fix"] == "apt-get install -y libegl1 libgl1-mesa-dri"
    only(monkeypatch, "osmesa")
    monkeypatch.setattr(gl, "_failure", lambda *_: "")
    (check,) = gl.doctor_checks("arm")
    assert (check["status"], check["detail"]) == ("ok", "osmesa (chosen)")
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    assert gl.doctor_checks("arm")[0]["detail"] == "osmesa (from MUJOCO_GL)"


@pytest.mark.parametrize(
    ("variables", "hint"),
    [
        ({}, ""),
        ({"MUJOCO_EGL_DEVICE_ID": "97"}, "unset MUJOCO_EGL_DEVICE_ID"),
        ({"MUJOCO_EGL_DEVICE_ID": "first"}, "unset MUJOCO_EGL_DEVICE_ID"),
        ({"MUJOCO_GL": "glx"}, "unset MUJOCO_GL"),
        ({"MUJOCO_GL": "glfw"}, "unset MUJOCO_GL"),
        ({"MUJOCO_GL": "egl", "PYOPENGL_PLATFORM": "osmesa"}, "unset PYOPENGL_PLATFORM"),
    ],
    ids=str,
)
def test_a_library_that_makes_no_context_is_found_before_a_run(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], hint: str
) -> None:
    if not gl.has_library("egl"):
        pytest.skip("no EGL on this machine")
    for name in gl.DECISIVE:
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    (check,) = gl.doctor_checks("arm")
    assert check["status"] == ("missing" if hint else "ok")
    assert check["fix"].startswith(hint)
    assert "has no attribute" not in check["detail"]  # of a context that was half made
    for name, value in variables.items():
        assert not hint or f"{name}={value}" in check["detail"]


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo no screens found >&2; exit 1", "no screens found"),
        ("kill -SEGV $$", "signal 11"),
        ("exit 3", "code 3"),
    ],
)
def test_the_reason_is_that_of_the_simulators_interpreter(
    refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, reason: str
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    only(monkeypatch, "egl")
    with refused(AssetError, reason, text=False):
        gl.require_context(str(python))


def test_light_modules_load_no_simulator() -> None:
    code = (
        "import sys\n"
        "import rlcore_mujoco.env, rlcore_mujoco.gl, rlcore_mujoco.settings, rlcore_mujoco.view\n"
        "print(sorted({'mujoco', 'gymnasium', 'torch', 'ray'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
