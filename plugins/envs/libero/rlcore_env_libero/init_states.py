"""The init states of a task, read without torch and without running code from the file.

They are arrays that `torch.save` pickled into a zip archive. A pickle may name any function to be
called; this reader knows the four that make an array, and refuses the rest.
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
    """An empty array, filled by the pickle's next step."""
    return np.ndarray.__new__(kind, shape, dtype="B")


def _encode(text: str, encoding: str) -> bytes:
    """Bytes, which old pickles hold as text."""
    return text.encode(encoding)


# By module and name in the pickle; numpy 1 and 2 call the first one differently.
KNOWN: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): _encode,
}


class ArrayUnpickler(pickle.Unpickler):
    """Loads numpy arrays and nothing else."""

    def find_class(self, module: str, name: str) -> Callable[..., Any]:
        """One of those that make an array.

        Raises:
            pickle.UnpicklingError: anything else.
        """
        if (module, name) not in KNOWN:
            raise pickle.UnpicklingError(f"it names {module}.{name}, and only arrays are read")
        found: Callable[..., Any] = KNOWN[module, name]
        return found


def read_init_states(file: Path) -> np.ndarray:
    """The init states of a task, float64 `[50, 1 + positions + velocities]`.

    Raises:
        AssetError: the file is missing or damaged, or holds anything but one array of numbers.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            (name,) = (name for name in archive.namelist() if name.endswith("/data.pkl"))
            states = ArrayUnpickler(io.BytesIO(archive.read(name))).load()
        if not isinstance(states, np.ndarray) or states.ndim != 2 or states.dtype != np.float64:
            raise ValueError(f"it holds {type(states).__name__}, expected one float64 [N, S] array")
    except Exception as error:  # a damaged pickle raises whatever its bytes lead to
        raise AssetError(f"{file}: init states can't be read: {error}", hint=REPAIR) from error
    return states
