"""Where LIBERO's own code is on this machine, found without importing it. Light.

Three distributions install a package `libero`, each over the other's files. rlcore takes
hf-libero, which is LIBERO's code as a package, with the tasks and init states in it.
"""

from __future__ import annotations

from importlib import metadata, util
from pathlib import Path

from rlcore.errors import AssetError

DISTRIBUTION = "hf-libero"
VERSION = "0.1.4"
COMMAND = "rlcore install-libero"
# pip leaves alone what it has installed, also where files of it are damaged.
REPAIR = f"pip install --force-reinstall --no-deps {DISTRIBUTION}=={VERSION}"


def libero_folder() -> Path:
    """The folder of the inner package, which holds `bddl_files` and `init_files`.

    Raises:
        AssetError: LIBERO is not installed, or another distribution's is, alone or besides.
    """
    owners = sorted({name.lower().replace("_", "-") for name in _owners()})
    strangers = [name for name in owners if name != DISTRIBUTION]
    if strangers:
        besides = f", besides {DISTRIBUTION}" if DISTRIBUTION in owners else ""
        raise AssetError(
            f"the package libero comes from {' and '.join(strangers)}{besides}, and rlcore needs "
            f"that of {DISTRIBUTION} alone",
            hint=f"pip uninstall -y {' '.join(owners)} && {COMMAND}",
        )
    found = util.find_spec("libero")
    places = list(found.submodule_search_locations or ()) if found else []
    for place in places:
        if (folder := Path(place) / "libero" / "bddl_files").is_dir():
            return folder.parent
    raise AssetError("LIBERO is not installed", hint=COMMAND)


def _owners() -> list[str]:
    """Names of the distributions that install a package `libero`. Their lists of files are only
    searched: to parse those of all distributions takes seconds."""
    return [
        distribution.metadata["Name"]
        for distribution in metadata.distributions()
        if "\nlibero/" in "\n" + (distribution.read_text("RECORD") or "")
    ]
