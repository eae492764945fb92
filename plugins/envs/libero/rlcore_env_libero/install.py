"""`rlcore install-libero`: LIBERO's own code into the environment that rlcore runs in.

pip can't say it: hf-libero asks for robomimic, and with that for torchvision, which simulation does
not need. What it does need comes with rlcore-env-libero.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

from rlcore.errors import ConfigError
from rlcore_env_libero.installed import COMMAND, DISTRIBUTION, VERSION, libero_folder

PIP = ("-m", "pip", "install", "--no-deps", f"{DISTRIBUTION}=={VERSION}")


def main(arguments: Sequence[str]) -> int:
    """Install it, and say where it is; returns pip's exit code.

    Raises:
        AssetError: it is hidden by another distribution's.
        ConfigError: there are no arguments to this command.
    """
    if list(arguments) in (["-h"], ["--help"]):
        print(f"usage: {COMMAND}\n\nruns: python {' '.join(PIP)}")
        return 0
    if arguments:
        raise ConfigError(f"{COMMAND} takes no arguments, got {' '.join(arguments)}")
    code = subprocess.run([sys.executable, *PIP]).returncode
    if code == 0:
        print(f"LIBERO is in {libero_folder()}")
    return code
