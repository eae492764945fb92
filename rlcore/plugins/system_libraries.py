"""Suggest a system library to install after a failed import. Light.

Some packages from pip link with libraries of the system. A desktop has them, a server or a
container may not; the import then fails with the library's file name.
"""

from __future__ import annotations

import re

PACKAGES = {
    "libX11.so.6": "libx11-6",
    "libGL.so.1": "libgl1",
    "libSM.so.6": "libsm6",
    "libXext.so.6": "libxext6",
    "libglib-2.0.so.0": "libglib2.0-0",
}
"""Package of Debian and Ubuntu, by file name; `requirements/install.sh` installs the same."""
MISSING = re.compile(r"(\S+\.so[.\d]*): cannot open shared object file")


def install_hint(message: str) -> str | None:
    """Return how to install the system library that an import did not find.

    None if the import failed for another reason.

    Args:
        message: text of the ImportError.
    """
    match = MISSING.search(message)
    if match is None:
        return None
    missing = match[1]
    if missing not in PACKAGES:
        return f"install the system package that contains {missing}"
    # all missing libraries at once, because the failed import names only the first
    packages = [name for file, name in PACKAGES.items() if file == missing or not loads(file)]
    return f"apt-get install -y {' '.join(packages)}"


def loads(file: str) -> bool:
    """Return whether the system's dynamic linker can load a library."""
    import ctypes  # imported here, because it is needed only after an import has failed

    try:
        ctypes.CDLL(file)
    except OSError:
        return False
    return True
