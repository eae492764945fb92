"""Imports robosuite and LIBERO without what they do besides: log files, warnings, a question on the
terminal, a folder in the user's home, a download."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

# robosuite's own way to change its settings: a module of the user's, which it misses loudly.
SETTINGS = "robosuite.macros_private"


def load_libero(libero: Path) -> ModuleType:
    """`libero.libero.envs`; its scenes take their files from :func:`assets_from`.

    Args:
        libero: the folder of LIBERO's code.
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
    """LIBERO builds its scenes from the files in `folder`."""
    import libero.libero as package

    before = package._assets_path_cache
    package._assets_path_cache = str(folder)
    try:
        yield
    finally:
        package._assets_path_cache = before


@contextlib.contextmanager
def _config(libero: Path) -> Iterator[None]:
    """Config folders of LIBERO and of matplotlib, as long as the import takes. Without its own,
    LIBERO asks on the terminal, and the user's may point into another environment; matplotlib, of
    which LIBERO uses a table of colours, makes one in the user's home."""
    paths = {"benchmark_root": "", "bddl_files": "bddl_files", "init_states": "init_files"}
    lines = [f"{key}: {libero / name}\n" for key, name in paths.items()]
    with tempfile.TemporaryDirectory(prefix="rlcore-libero-") as folder:
        Path(folder, "config.yaml").write_text("".join(lines))
        its = os.environ.get("MPLCONFIGDIR", folder)
        own = {"MPLCONFIGDIR": its, "LIBERO_CONFIG_PATH": folder}
        before = {name: os.environ[name] for name in own if name in os.environ}
        os.environ.update(own)
        try:
            yield
        finally:
            for name in own:
                del os.environ[name]
            os.environ.update(before)
