"""Which GL library MuJoCo renders with, on a GPU or in software, found without importing MuJoCo.

MuJoCo reads `MUJOCO_GL` once, at import. On a machine without a display it fails with a C++ error
if that is unset. So we choose here, before any simulator process starts.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import sys

from rlcore_simulation.doctor import Row, missing, row

from rlcore.contracts.errors import AssetError, ConfigError, did_you_mean

# GL backend -> its library as the linker knows it, and the file name to try without a linker.
LIBRARIES = {"egl": ("EGL", "libEGL.so.1"), "osmesa": ("OSMesa", "libOSMesa.so.8")}
# The Debian and Ubuntu packages of each.
PACKAGES = {"egl": "libegl1 libgl1-mesa-dri", "osmesa": "libosmesa6"}
# Backends of MuJoCo that need a display; used only if MUJOCO_GL names them.
ON_SCREEN = ("glfw", "glx")


def choose_gl() -> str | None:
    """The value of `MUJOCO_GL` for simulators; None if MuJoCo needs none (not Linux).

    A value in the environment is kept; otherwise egl, or osmesa if egl is missing.

    Raises:
        AssetError: no library for the requested backend, or for any.
        ConfigError: MuJoCo does not know the value of `MUJOCO_GL`, or it turns rendering off.
    """
    if sys.platform != "linux":
        return None
    asked = os.environ.get("MUJOCO_GL", "").strip().lower()
    if asked in ON_SCREEN:
        return asked
    if asked and asked not in LIBRARIES:
        choices = (*LIBRARIES, *ON_SCREEN)
        raise ConfigError(
            f"the environment variable MUJOCO_GL must be one of {', '.join(choices)}, "
            f"got {asked!r}.{did_you_mean(asked, choices)}",
            hint="unset MUJOCO_GL to let rlcore choose",
        )
    for backend in [asked] if asked else list(LIBRARIES):
        if has_library(backend):
            return backend
    absent = asked or " or ".join(LIBRARIES)
    raise AssetError(
        f"MuJoCo can't render: no GL library for {absent} on this machine",
        hint=f"apt-get install -y {PACKAGES[asked or 'egl']}",
    )


def has_library(backend: str) -> bool:
    """Whether the library of a GL backend can be loaded."""
    name, file = LIBRARIES[backend]
    return _loads(file) or _loads(ctypes.util.find_library(name))


def _loads(library: str | None) -> bool:
    try:
        return library is not None and bool(ctypes.CDLL(library))
    except OSError:
        return False


def doctor_checks(env: str) -> list[Row]:
    """The rows of `rlcore doctor` for an env that renders with MuJoCo, by its registered name."""
    name = f"{env}: GL library"
    try:
        backend = choose_gl()
    except (AssetError, ConfigError) as error:
        return [missing(name, error)]
    origin = "from MUJOCO_GL" if os.environ.get("MUJOCO_GL") else "chosen"
    return [row(name, f"{backend} ({origin})" if backend else "the platform's own")]
