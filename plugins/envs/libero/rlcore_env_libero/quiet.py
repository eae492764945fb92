"""Import robosuite and LIBERO without the side effects of these imports.

The side effects are log files, warnings, a question on the terminal, a folder in the user's home
and a download.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

# Module of the user from which robosuite reads its settings. Without it, robosuite warns.
SETTINGS = "robosuite.macros_private"


def load_libero(libero: Path) -> ModuleType:
    """Import and return `libero.libero.envs`. Its scenes need :func:`assets_from`.

    Args:
        libero: folder of LIBERO's code.
    """
    if "robosuite" not in sys.modules:
        settings = ModuleType(SETTINGS)
        vars(settings).update(CONSOLE_LOGGING_LEVEL=None, FILE_LOGGING_LEVEL=None)
        sys.modules[SETTINGS] = settings
        logging.getLogger("robosuite_logs").setLevel(logging.ERROR)
    with _config(libero):
        import libero.libero.envs as envs
    return envs


@contextlib.contextmanager
def assets_from(folder: Path) -> Iterator[None]:
    """Set the folder from which LIBERO builds its scenes, within this context."""
    import libero.libero as package

    before = package._assets_path_cache
    package._assets_path_cache = str(folder)
    try:
        yield
    finally:
        package._assets_path_cache = before


@contextlib.contextmanager
def _config(libero: Path) -> Iterator[None]:
    """Set temporary config folders of LIBERO and matplotlib, within this context.

    Without a config file LIBERO asks on the terminal, and the user's own file may point into
    another environment. Matplotlib, whose colour table LIBERO imports, would make a folder in the
    user's home.
    """
    paths = {"benchmark_root": "", "bddl_files": "bddl_files", "init_states": "init_files"}
    lines = [f"{key}: {libero / name}\n" for key, name in paths.items()]
    with tempfile.TemporaryDirectory(prefix="rlcore-libero-") as folder:
        Path(folder, "config.yaml").write_text("".join(lines))
        matplotlib_folder = os.environ.get("MPLCONFIGDIR", folder)
        own = {"MPLCONFIGDIR": matplotlib_folder, "LIBERO_CONFIG_PATH": folder}
        before = {name: os.environ[name] for name in own if name in os.environ}
        os.environ.update(own)
        try:
            yield
        finally:
            for name in own:
                del os.environ[name]
            os.environ.update(before)
