"""SAPIEN's PhysX library for GPUs, which its wheel lacks: looked for, never downloaded. Light.

SAPIEN itself downloads it in whichever process asks for a GPU first, without a time limit.
"""

from __future__ import annotations

import platform
from pathlib import Path

from rlcore.contracts.errors import AssetError

# That of the SAPIEN that this distribution asks for.
VERSION = "105.1-physx-5.3.1.patch0"
RELEASES = "https://github.com/sapien-sim/physx-precompiled/releases/download"


def require_library(version: str = VERSION) -> Path:
    """The library, where SAPIEN looks for it.

    Raises:
        AssetError: it is not there, or something else is.
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
    """Brings the library to this machine; where there is no network, its folder can be copied."""
    arm = platform.machine() in ("aarch64", "arm64")
    archive = f"linux-{'aarch64-' if arm else ''}so.zip"
    folder = _folder(version)
    return (
        f"curl -fL --create-dirs -o {folder / archive} {RELEASES}/{version}/{archive} && "
        f"python -m zipfile -e {folder / archive} {folder}"
    )


def enable_gpu() -> None:
    """Load the library into this process, as SAPIEN does at its first simulation on a GPU.

    Raises:
        AssetError: it is not there, or can't be loaded.
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
