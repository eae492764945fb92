"""The Vulkan driver that SAPIEN renders with, found without loading SAPIEN.

SAPIEN needs a rendering device even if no frame is rendered. On a machine with an NVIDIA card it
finds the driver itself. Elsewhere it needs Mesa's software driver (lavapipe), named by
`VK_ICD_FILENAMES`, and no ray tracing. `requirements/vulkan.sh` installs that driver.
"""

from __future__ import annotations

import contextlib
import ctypes
import glob
import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

from rlcore_simulation import interpreters

from rlcore.contracts.errors import AssetError
from rlcore.plugins.system_libraries import mend

FOLDERS = tuple(
    Path(folder)
    for folder in ("/etc/vulkan/icd.d", "/usr/local/share/vulkan/icd.d", "/usr/share/vulkan/icd.d")
)
NVIDIA_LIBRARY = "libGLX_nvidia.so.0"
# The Vulkan loader's own variables, the newer one first.
VARIABLES = ("VK_DRIVER_FILES", "VK_ICD_FILENAMES")
# What SAPIEN needs with lavapipe, which has no ray tracing.
SOFTWARE = {"SAPIEN_DISABLE_RAY_TRACING": "1"}
# The devices of a card; without one the driver's library is useless.
CARDS = ("/dev/nvidia[0-9]*", "/dev/dxg")
PACKAGES = "mesa-vulkan-drivers libvulkan1"
OS_RELEASE = Path("/etc/os-release")
PROBE_SECONDS = 60.0


def install_command() -> str:
    """The command that installs Mesa's driver in a version that works with SAPIEN (24 or newer)."""
    codename = ""
    with contextlib.suppress(OSError):
        found = re.search(r"^VERSION_CODENAME=\"?(\w+)", OS_RELEASE.read_text(), re.MULTILINE)
        codename = found[1] if found else ""
    if codename == "bookworm":  # its own version, 22.3, offers SAPIEN no device
        source = "deb http://deb.debian.org/debian bookworm-backports main"
        return (
            f"echo '{source}' > /etc/apt/sources.list.d/rlcore-backports.list && apt-get update && "
            f"apt-get install -y -t bookworm-backports {PACKAGES}; from a checkout: "
            "bash requirements/vulkan.sh"
        )
    return (
        f"apt-get install -y {PACKAGES} (Mesa 24 or newer); from a checkout: "
        "bash requirements/vulkan.sh"
    )


def tried_driver() -> str:
    """:func:`driver`, after a short process has checked that SAPIEN finds a device with it: an old
    driver loads too, and a file named by the user may be anything.

    Raises:
        AssetError: no driver is installed, or it offers no device.
    """
    name = driver()
    _try(tuple(environment().items()), _asked())
    return name


@cache
def _try(variables: tuple[tuple[str, str], ...], asked: str) -> None:
    try:
        done = subprocess.run(
            interpreters.command(__name__),
            capture_output=True,
            text=True,
            timeout=PROBE_SECONDS,
            env=interpreters.environment() | dict(variables),
        )
    except subprocess.TimeoutExpired as error:
        raise AssetError(
            f"SAPIEN looked for a rendering device and did not answer within {PROBE_SECONDS:g} s",
            hint=install_command(),
        ) from error
    if done.returncode:
        said = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        library = mend(said[0])
        if library is not None:
            raise AssetError(f"SAPIEN can't be loaded: {said[0]}", hint=library)
        raise AssetError(
            f"SAPIEN finds no rendering device with {driver()}: {said[0]}", hint=install_command()
        )


def driver() -> str:
    """Which driver SAPIEN will use, in words.

    Raises:
        AssetError: this machine has none.
    """
    chosen = environment().get("VK_ICD_FILENAMES")
    asked = _asked()
    return f"{asked} (from the environment)" if asked else chosen or "NVIDIA's"


def environment() -> dict[str, str]:
    """Variables that must be set before SAPIEN is imported.

    Raises:
        AssetError: no driver on this machine, or the one that the user names does not exist.
    """
    if sys.platform != "linux":
        return {}
    asked = _asked()
    if asked:
        missing = [name for name in asked.split(os.pathsep) if not Path(name).is_file()]
        if missing:
            variable = next(name for name in VARIABLES if os.environ.get(name))
            raise AssetError(
                f"{variable} names {missing[0]}, which does not exist", hint=install_command()
            )
        return SOFTWARE if "lvp" in asked else {}
    if _loads(NVIDIA_LIBRARY) and any(map(glob.glob, CARDS)):
        return {}
    for file in (file for folder in FOLDERS for file in sorted(folder.glob("lvp_icd*.json"))):
        if _loads(_library(file)):
            return {"VK_ICD_FILENAMES": str(file)} | SOFTWARE
    raise AssetError("SAPIEN can't run: no Vulkan driver on this machine", hint=install_command())


def rendering_device() -> str:
    """The device that SAPIEN renders with: "cuda", or its address on the PCI bus.

    Raises:
        AssetError: the driver offers no device.
    """
    import sapien

    for name in ("cuda", "pci:0"):
        with contextlib.suppress(RuntimeError):  # how SAPIEN says that it found none
            device = sapien.Device(name)
            if device.can_render():
                return name if name == "cuda" else f"pci:{device.pci_string}"
    raise AssetError(
        "SAPIEN finds no rendering device: the Vulkan driver is missing or too old",
        hint=install_command(),
    )


def _asked() -> str:
    return next((os.environ[name] for name in VARIABLES if os.environ.get(name)), "")


def _library(file: Path) -> str:
    """The library that a driver's file names: a file beside it, or one the linker knows."""
    try:
        path = str(json.loads(file.read_text())["ICD"]["library_path"])
    except (OSError, ValueError, KeyError):
        return ""
    return str(file.parent / path) if path.startswith(".") else path


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return bool(library)


if __name__ == "__main__":
    try:
        print(rendering_device())
    except AssetError as error:
        sys.exit(error.message)
