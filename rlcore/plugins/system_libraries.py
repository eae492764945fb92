"""Say what mends an import that failed: the package of a missing system library which packages from
pip link with, or who knows the new name of a module of rlcore. Light.

A desktop has these libraries, a server or a container may not: then an import fails with a file's
name.
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
"""File name -> package of Debian and Ubuntu. `requirements/install.sh` has the same ones."""
MISSING = re.compile(r"(\S+\.so[.\d]*): cannot open shared object file")


def mend(message: str) -> str | None:
    """Name what installs the library that an import did not find; None if it failed for another
    reason.

    Args:
        message: the text of an ImportError.
    """
    found = MISSING.search(message)
    if found is None:
        return None
    if found[1] not in PACKAGES:
        return f"install the package of this system that holds {found[1]}"
    # all at once: an import names only the first
    names = [name for file, name in PACKAGES.items() if file == found[1] or not loads(file)]
    return f"apt-get install -y {' '.join(names)}"


def loads(file: str) -> bool:
    """Return whether the system's linker finds a library."""
    import ctypes  # only after an import has failed

    try:
        ctypes.CDLL(file)
    except OSError:
        return False
    return True


def moved(error: BaseException) -> str:
    """Return who knows the new name of what an import did not find in rlcore, for behind the error;
    empty for any other error."""
    inside = isinstance(error, ImportError) and (error.name or "").startswith("rlcore.")
    return " (it may have moved: rlcore doctor gives new names)" if inside else ""
