"""Find the Vulkan driver that SAPIEN renders with, without importing SAPIEN.

SAPIEN needs a rendering device even if no frame is rendered. On a machine with an NVIDIA GPU it
finds the driver itself. On other machines it needs Mesa's software driver (lavapipe), whose file
`VK_ICD_FILENAMES` names, and ray tracing turned off. `requirements/vulkan.sh` installs that driver.
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
from rlcore.plugins.system_libraries import install_hint

FOLDERS = tuple(
    Path(folder)
    for folder in ("/etc/vulkan/icd.d", "/usr/local/share/vulkan/icd.d", "/usr/share/vulkan/icd.d")
)
NVIDIA_LIBRARY = "libGLX_nvidia.so.0"
# Environment variables in which the Vulkan loader looks for drivers, the newer one first.
VARIABLES = ("VK_DRIVER_FILES", "VK_ICD_FILENAMES")
# Environment variable that SAPIEN needs with lavapipe, which has no ray tracing.
SOFTWARE = {"SAPIEN_DISABLE_RAY_TRACING": "1"}
# Device files of a GPU (/dev/dxg on WSL). Without a GPU, NVIDIA's driver library finds no device.
CARDS = ("/dev/nvidia[0-9]*", "/dev/dxg")
PACKAGES = "mesa-vulkan-drivers libvulkan1"
OS_RELEASE = Path("/etc/os-release")
PROBE_SECONDS = 60.0


def install_command() -> str:
    """Return the command that installs Mesa's driver in version 24 or newer, as SAPIEN needs."""
    codename = ""
    with contextlib.suppress(OSError):
        match = re.search(r"^VERSION_CODENAME=\"?(\w+)", OS_RELEASE.read_text(), re.MULTILINE)
        codename = match[1] if match else ""
    if codename == "bookworm":  # the release's own version, 22.3, offers SAPIEN no device
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
    """Return :func:`driver`, after a subprocess checked that SAPIEN finds a device with it.

    The check is needed because a driver that is too old can be loaded, too, and because the user
    may name any file. Its success is cached.

    Raises:
        AssetError: no driver is installed, it offers no device, or SAPIEN can't be imported.
    """
    name = driver()
    _try(tuple(environment().items()), _asked())
    return name


@cache
def _try(variables: tuple[tuple[str, str], ...], asked: str) -> None:
    try:
        process = subprocess.run(
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
    if process.returncode:
        reason = process.stderr.strip().splitlines()[-1:] or [f"exit code {process.returncode}"]
        library = install_hint(reason[0])
        if library is not None:
            raise AssetError(f"SAPIEN can't be loaded: {reason[0]}", hint=library)
        raise AssetError(
            f"SAPIEN finds no rendering device with {driver()}: {reason[0]}", hint=install_command()
        )


def driver() -> str:
    """Return a description of the driver that SAPIEN will use.

    It is the path of the driver's file, or "NVIDIA's".

    Raises:
        AssetError: this machine has no driver.
    """
    chosen = environment().get("VK_ICD_FILENAMES")
    requested = _asked()
    return f"{requested} (from the environment)" if requested else chosen or "NVIDIA's"


def environment() -> dict[str, str]:
    """Return the environment variables that must be set before SAPIEN is imported.

    Raises:
        AssetError: this machine has no driver, or a file that the user names does not exist.
    """
    if sys.platform != "linux":
        return {}
    requested = _asked()
    if requested:
        missing = [name for name in requested.split(os.pathsep) if not Path(name).is_file()]
        if missing:
            variable = next(name for name in VARIABLES if os.environ.get(name))
            raise AssetError(
                f"{variable} names {missing[0]}, which does not exist", hint=install_command()
            )
        return SOFTWARE if "lvp" in requested else {}
    if _loads(NVIDIA_LIBRARY) and any(map(glob.glob, CARDS)):
        return {}
    for file in (file for folder in FOLDERS for file in sorted(folder.glob("lvp_icd*.json"))):
        if _loads(_library(file)):
            return {"VK_ICD_FILENAMES": str(file)} | SOFTWARE
    raise AssetError("SAPIEN can't run: no Vulkan driver on this machine", hint=install_command())


def rendering_device() -> str:
    """Return the device that SAPIEN renders with: "cuda", or "pci:" and its PCI address.

    Raises:
        AssetError: the driver offers no device.
    """
    import sapien

    for name in ("cuda", "pci:0"):
        with contextlib.suppress(RuntimeError):  # raised if SAPIEN finds no such device
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
    """Return the library that a driver's file names; empty if the file can't be read.

    A name that begins with a dot is relative to the file's folder. Others are for the linker.
    """
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
