"""`rlcore install-libero`: LIBERO's own code into the environment that rlcore runs in.

pip can't say it: hf-libero asks for robomimic, and with that for torchvision, which simulation does
not need. What it does need comes with rlcore-env-libero.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib import util

from rlcore.errors import AssetError, ConfigError
from rlcore_env_libero.installed import COMMAND, DISTRIBUTION, VERSION, libero_folder

WANTED = ("--no-deps", f"{DISTRIBUTION}=={VERSION}")


def main(arguments: Sequence[str]) -> int:
    """Install it, and say where it is; returns pip's exit code.

    Raises:
        AssetError: it is hidden by another distribution's, or nothing here installs packages.
        ConfigError: there are no arguments to this command.
    """
    if list(arguments) in (["-h"], ["--help"]):
        print(f"usage: {COMMAND}\n\nruns: {shlex.join(_installer())}")
        return 0
    if arguments:
        raise ConfigError(f"{COMMAND} takes no arguments, got {' '.join(arguments)}")
    code = subprocess.run(_installer()).returncode
    if code == 0:
        print(f"LIBERO is in {libero_folder()}")
    return code


def _installer() -> list[str]:
    """pip's command, or uv's, whose environments have no pip."""
    if util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install", *WANTED]
    uv = shutil.which("uv")
    if uv is not None:
        return [uv, "pip", "install", "--python", sys.executable, *WANTED]
    raise AssetError(
        f"{sys.prefix} has no pip, by which packages are installed",
        hint=f"{shlex.quote(sys.executable)} -m ensurepip; then {COMMAND}",
    )
