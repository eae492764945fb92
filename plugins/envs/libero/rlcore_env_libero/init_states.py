"""Read the init states of a task, without torch and without running code from the file.

The files are zip archives of `torch.save` with a pickled array. A pickle can call any function that
it names. This reader permits only the functions and classes that make an array.
"""

from __future__ import annotations

import io
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from rlcore.contracts.errors import AssetError
from rlcore_env_libero.installed import REPAIR


def _reconstruct(kind: type, shape: tuple[int, ...], code: bytes) -> np.ndarray:
    """Return an uninitialised array, which the pickle's next instruction fills."""
    return np.ndarray.__new__(kind, shape, dtype="B")


def _encode(text: str, encoding: str) -> bytes:
    """Convert text to bytes: old pickle protocols store bytes as text."""
    return text.encode(encoding)


# Permitted functions and classes by module and name. The first one differs in numpy 1 and 2.
KNOWN: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): _encode,
}


class ArrayUnpickler(pickle.Unpickler):
    """Unpickler that loads only numpy arrays."""

    def find_class(self, module: str, name: str) -> Callable[..., Any]:
        """Return a permitted function or class.

        Raises:
            pickle.UnpicklingError: the pickle names any other.
        """
        if (module, name) not in KNOWN:
            raise pickle.UnpicklingError(f"it names {module}.{name}, and only arrays are read")
        function: Callable[..., Any] = KNOWN[module, name]
        return function


def read_init_states(file: Path) -> np.ndarray:
    """Read the init states of a task.

    Returns:
        float64 `[N, S]`, one flattened state per trial: time, positions and velocities. LIBERO's
        files have 50.

    Raises:
        AssetError: the file is missing or damaged, or holds something else than such an array.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            (name,) = (name for name in archive.namelist() if name.endswith("/data.pkl"))
            states = ArrayUnpickler(io.BytesIO(archive.read(name))).load()
        if not isinstance(states, np.ndarray) or states.ndim != 2 or states.dtype != np.float64:
            raise ValueError(f"it holds {type(states).__name__}, expected one float64 [N, S] array")
    except Exception as error:  # a damaged pickle may raise any class
        raise AssetError(f"{file}: init states can't be read: {error}", hint=REPAIR) from error
    return states
