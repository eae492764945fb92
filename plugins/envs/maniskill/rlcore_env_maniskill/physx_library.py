"""Find SAPIEN's PhysX library for GPUs, which is not in its wheel. Imports SAPIEN only to load it.

This module never downloads. SAPIEN itself would download the library in the first process that asks
for a GPU, without a timeout.
"""

from __future__ import annotations

import platform
from pathlib import Path

from rlcore.contracts.errors import AssetError

# The PhysX version of the SAPIEN release that this distribution requires.
VERSION = "105.1-physx-5.3.1.patch0"
RELEASES = "https://github.com/sapien-sim/physx-precompiled/releases/download"


def require_library(version: str = VERSION) -> Path:
    """Return the path of the library in the folder where SAPIEN looks for it.

    Raises:
        AssetError: the file does not exist, or is not an ELF file.
    """
    file = _folder(version) / "libPhysXGpu_64.so"
    if not file.is_file():
        raise AssetError(
            f"sim_backend=gpu needs SAPIEN's PhysX library, and {file} does not exist",
            hint=download_command(version),
        )
    with open(file, "rb") as opened:
        if opened.read(4) != b"\x7fELF":
            raise AssetError(f"{file} is not a library", hint=download_command(version))
    return file


def download_command(version: str) -> str:
    """Return the shell command that downloads and unpacks the library.

    On a machine without network its folder can be copied from another machine instead.
    """
    arm = platform.machine() in ("aarch64", "arm64")
    archive = f"linux-{'aarch64-' if arm else ''}so.zip"
    folder = _folder(version)
    return (
        f"curl -fL --create-dirs -o {folder / archive} {RELEASES}/{version}/{archive} && "
        f"python -m zipfile -e {folder / archive} {folder}"
    )


def enable_gpu() -> None:
    """Load the library into this process, as SAPIEN does at its first GPU simulation.

    Raises:
        AssetError: the library is missing or can't be loaded.
    """
    from sapien import physx

    file = require_library(physx.version())
    try:
        physx.enable_gpu()
    except OSError as error:
        raise AssetError(
            f"SAPIEN can't simulate on a GPU: {error}",
            hint=f"libcuda.so is of NVIDIA's driver; for {file}: "
            f"{download_command(physx.version())}",
        ) from error


def _folder(version: str) -> Path:
    return Path.home() / ".sapien" / "physx" / version
