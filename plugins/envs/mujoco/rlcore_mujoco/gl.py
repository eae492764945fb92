"""Choose the GL library that MuJoCo renders with, on a GPU or in software.

MuJoCo reads `MUJOCO_GL` once, at import. On a machine without a display it fails with a C++ error
if that variable is unset. So this module chooses the library without importing MuJoCo, before any
simulator process starts. A library that can be loaded may still fail to make a GL context. Before a
run, :func:`require_context` therefore tries it in a subprocess.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from rlcore_simulation import interpreters
from rlcore_simulation.doctor import Row, missing, row

from rlcore.contracts.errors import AssetError, ConfigError, did_you_mean

# GL backend -> name of its library for `find_library`, and the file name, which is tried first.
LIBRARIES = {"egl": ("EGL", "libEGL.so.1"), "osmesa": ("OSMesa", "libOSMesa.so.8")}
# GL backend -> its Debian and Ubuntu packages.
PACKAGES = {"egl": "libegl1 libgl1-mesa-dri", "osmesa": "libosmesa6"}
# Backends of MuJoCo that need a display. They are used only if MUJOCO_GL names them.
ON_SCREEN = ("glfw", "glx")
PROBE = Path(__file__).with_name("gl_probe.py")
PROBE_SECONDS = 120.0
# Environment variables other than MUJOCO_GL on which the creation of a context depends.
DECISIVE = ("MUJOCO_EGL_DEVICE_ID", "PYOPENGL_PLATFORM", "DISPLAY")


def choose_gl() -> str | None:
    """Return the value of `MUJOCO_GL` for simulators.

    A value in the environment takes precedence. Otherwise the choice is egl, or osmesa if the EGL
    library is missing.

    Returns:
        name of the backend; None on other systems than Linux, where MuJoCo needs no choice.

    Raises:
        AssetError: the library of the requested backend is missing, or those of all backends are.
        ConfigError: the value of `MUJOCO_GL` is unknown to MuJoCo, or turns rendering off.
    """
    if sys.platform != "linux":
        return None
    requested = os.environ.get("MUJOCO_GL", "").strip().lower()
    if requested in ON_SCREEN:
        return requested
    if requested and requested not in LIBRARIES:
        choices = (*LIBRARIES, *ON_SCREEN)
        raise ConfigError(
            f"the environment variable MUJOCO_GL must be one of {', '.join(choices)}, "
            f"got {requested!r}.{did_you_mean(requested, choices)}",
            hint="unset MUJOCO_GL to let rlcore choose",
        )
    for backend in [requested] if requested else list(LIBRARIES):
        if has_library(backend):
            return backend
    absent = requested or " or ".join(LIBRARIES)
    raise AssetError(
        f"MuJoCo can't render: no GL library for {absent} on this machine",
        hint=f"apt-get install -y {PACKAGES[requested or 'egl']}",
    )


def has_library(backend: str) -> bool:
    """Check whether the library of a GL backend can be loaded."""
    name, file = LIBRARIES[backend]
    return _is_loadable(file) or _is_loadable(ctypes.util.find_library(name))


def _is_loadable(library: str | None) -> bool:
    try:
        return library is not None and bool(ctypes.CDLL(library))
    except OSError:
        return False


def require_context(python: str | None = None) -> str | None:
    """Check in a subprocess that MuJoCo can make a GL context with an offscreen framebuffer.

    The result is cached.

    Args:
        python: interpreter of the simulators; None: rlcore's own.

    Returns:
        value of `MUJOCO_GL` for simulators, see :func:`choose_gl`.

    Raises:
        AssetError: there is no GL library, or it can't make a context. The message gives the
            reason.
        ConfigError: the value of `MUJOCO_GL` is unknown to MuJoCo.
    """
    gl = choose_gl()
    if gl is None:
        return None
    variables = tuple((name, os.environ.get(name)) for name in DECISIVE)
    reason = _failure(gl, python, variables)
    if reason:
        settings = [f"{name}={value}" for name, value in variables if value is not None]
        if gl in ON_SCREEN and "DISPLAY" not in os.environ:
            settings.append("no DISPLAY")
        listed = ", ".join([f"MUJOCO_GL={gl}", *settings])
        raise AssetError(
            f"MuJoCo makes no GL context with {listed}: {reason}", hint=_repair_hint(gl)
        )
    return gl


@cache
def _failure(gl: str, python: str | None, variables: tuple[tuple[str, str | None], ...]) -> str:
    """Return why MuJoCo can't make a GL context in an interpreter; empty if it can.

    Args:
        gl: value of `MUJOCO_GL`.
        python: interpreter of the simulators; None: rlcore's own.
        variables: environment variables in `DECISIVE` with their values. They are an argument only
            to be part of the cache's key.
    """
    if python is None:
        executable = sys.executable
        environment = interpreters.environment()
    else:
        executable = interpreters.executable_of(python)
        environment = interpreters.environment(())
    try:
        process = subprocess.run(
            [executable, "-c", PROBE.read_text()],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PROBE_SECONDS,
            stdin=subprocess.DEVNULL,
            env=environment | {"MUJOCO_GL": gl},
        )
    except subprocess.TimeoutExpired:
        return f"it did not answer within {PROBE_SECONDS:g} s"
    except OSError:  # the interpreter is missing, which other checks report
        return ""
    if not process.returncode:
        return ""
    ended = f"it ended with code {process.returncode}"
    if process.returncode < 0:
        ended = f"it was ended by signal {-process.returncode}"
    return (process.stderr.strip().splitlines() or [ended])[-1]


def _repair_hint(gl: str) -> str:
    """Return the hint that most probably helps if a backend can't make a context."""
    platform = os.environ.get("PYOPENGL_PLATFORM")
    if platform and platform.lower() != gl:
        return "unset PYOPENGL_PLATFORM"
    if gl in ON_SCREEN:
        return "unset MUJOCO_GL to let rlcore choose a library that needs no display"
    if gl == "egl" and "MUJOCO_EGL_DEVICE_ID" in os.environ:
        return "unset MUJOCO_EGL_DEVICE_ID to let MuJoCo look for a device that works"
    others = [name for name in LIBRARIES if name != gl and has_library(name)]
    use = f"export MUJOCO_GL={others[0]}, or " if others else ""
    return f"{use}apt-get install -y {PACKAGES[gl]}"


def doctor_checks(env: str, pythons: Iterable[str | None] = (None,)) -> list[Row]:
    """Return the rows of `rlcore doctor` for an env that renders with MuJoCo.

    Args:
        env: registered name of the env.
        pythons: interpreters of its simulators; None: rlcore's own.
    """
    name = f"{env}: GL library"
    rows = []
    for python in dict.fromkeys(pythons) or (None,):
        try:
            backend = require_context(python)
        except (AssetError, ConfigError) as error:
            rows.append(missing(name, error))
            continue
        origin = "from MUJOCO_GL" if os.environ.get("MUJOCO_GL") else "chosen"
        rows.append(row(name, f"{backend} ({origin})" if backend else "the platform's own"))
    return list({finding["detail"]: finding for finding in rows}.values())
