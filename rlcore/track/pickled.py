"""What a file of `torch.save` says it holds, read without torch and without running anything.

Such a file is a zip archive: a pickle with names, shapes and dtypes, and a member for the bytes of
each storage. A pickle may ask for any function of any package to be called. Here only what rebuilds
tensors is known, as stand-ins; whatever else a file asks for makes it unsafe, and nothing is run.
"""

from __future__ import annotations

import io
import math
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlcore.errors import CheckpointError
from rlcore.reading import MIB, open_regular
from rlcore.track.damage import damaged
from rlcore.track.headers import TensorHeader, check_here

LARGEST_PICKLE = 64 * MIB  # of names and shapes; one of 2000 tensors has 300 KiB
STATES: tuple[tuple[str, ...], ...] = (
    (),
    ("state_dict",),
    ("model_state_dict",),
    ("model",),
    ("module",),
    ("fsdp_checkpoint", "model"),
)
"""Where trainers put the weights in what they save: at the top, or below one of these names."""

_DTYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2",
    "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8", "uint8": "U8", "bool": "BOOL",
}  # fmt: skip
_STORAGES = {
    "DoubleStorage": "F64", "FloatStorage": "F32", "HalfStorage": "F16", "BFloat16Storage": "BF16",
    "LongStorage": "I64", "IntStorage": "I32", "ShortStorage": "I16", "CharStorage": "I8",
    "ByteStorage": "U8", "BoolStorage": "BOOL",
}  # fmt: skip
_BYTES = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "F16": 2, "BF16": 2, "I16": 2}  # others: 1
_PICKLE = b"\x80"  # how a pickle begins that is in no archive


class _Unsafe(Exception):
    """The pickle asks for something else than tensors; the message names it."""


@dataclass(frozen=True)
class _Storage:
    """dtype (None: given with each tensor), name of its member, and count of its elements."""

    dtype: str | None
    key: str
    count: int


@dataclass(frozen=True)
class _Tensor:
    header: TensorHeader
    storage: _Storage
    end: int  # elements of the storage that it needs


def read_pickled_headers(path: Path) -> dict[str, TensorHeader]:
    """Tensors of a file of `torch.save`, by name, like those of
    :func:`rlcore.track.headers.read_headers`. Only names, shapes and dtypes are read.

    Raises:
        CheckpointError: the file is missing, cut off, none of `torch.save`, holds no weights, or is
            an unsafe pickle.
    """
    check_here(path)
    try:
        with open_regular(path) as file:
            if file.read(1) == _PICKLE:
                file.seek(0)
                _Reader(io.BytesIO(file.read(LARGEST_PICKLE))).load()
                raise CheckpointError(
                    f"{path} is a pickle in the form that torch wrote before 1.6",
                    hint=f"save it again: {resave(path, path.with_suffix('.safetensors'))}",
                )
            file.seek(0)
            with zipfile.ZipFile(file) as archive:
                tensors = _tensors(path, archive)
    except OSError as error:
        raise CheckpointError(f"{path} can't be read: {error.strerror or error}") from error
    except _Unsafe as error:
        raise unsafe(path, str(error)) from None
    except CheckpointError:
        raise
    except Exception as error:  # a broken archive or pickle raises whatever it leads to
        raise damaged(path, str(error) or "it is not a file of torch.save") from error
    return {name: tensor.header for name, tensor in tensors.items()}


def unsafe(path: Path, what: str) -> CheckpointError:
    """The error for a file that would run code when it is loaded."""
    return CheckpointError(
        f"{path} is an unsafe pickle: besides tensors it holds {what}, and loading that can run "
        "any code",
        hint="get the weights as .safetensors, or have them saved without anything else: "
        "torch.save(model.state_dict(), FILE)",
    )


def find_state(path: Path, tree: Any, kind: type) -> Mapping[str, Any]:
    """The weights by name in what a file of `torch.save` holds; see :data:`STATES`.

    Args:
        path: the file, for messages.
        tree: what it holds.
        kind: what a tensor is in it.

    Raises:
        CheckpointError: there are none.
    """
    for names in STATES:
        state = tree
        for name in names:
            state = state.get(name) if isinstance(state, Mapping) else None
        if (
            isinstance(state, Mapping)
            and state
            and all(isinstance(t, kind) for t in state.values())
        ):
            return state
    places = ", ".join(".".join(names) for names in STATES if names)
    raise CheckpointError(
        f"{path} holds no mapping of names to tensors, neither at the top nor as {places}",
        hint="save the weights alone: torch.save(model.state_dict(), FILE)",
    )


def resave(path: Path, target: Path, *, pattern: str = "") -> str:
    """The command that writes the tensors of a file of `torch.save` as safetensors.

    Args:
        path: the file; with a pattern the folder of several that are written into one.
        target: the file to write.
        pattern: of the names of several files.
    """
    loaded = "torch.load({}, map_location='cpu', weights_only=True).items()"
    if pattern:
        one = "for f in sorted(pathlib.Path({!r}).glob({!r})) for n, t in {}"
        tensors = one.format(str(path), pattern, loaded.format("f"))
    else:
        tensors = f"for n, t in {loaded.format(repr(str(path)))}"
    return (
        'python -c "import pathlib, torch; from safetensors.torch import save_file; '
        f"save_file({{n: t.clone().contiguous() {tensors}}}, {str(target)!r}, {{'format': 'pt'}})\""
    )


def _tensors(path: Path, archive: zipfile.ZipFile) -> dict[str, _Tensor]:
    """Tensors by name, whose bytes are all there."""
    sizes = {info.filename: info.file_size for info in archive.infolist()}
    (pickled,) = (name for name in sizes if name.endswith("/data.pkl"))
    if sizes[pickled] > LARGEST_PICKLE:
        raise damaged(path, f"{pickled} is larger than {LARGEST_PICKLE // MIB} MiB")
    tree = _Reader(io.BytesIO(archive.read(pickled))).load()
    tensors = {str(name): tensor for name, tensor in find_state(path, tree, _Tensor).items()}
    folder = pickled.removesuffix("data.pkl")
    for name, tensor in tensors.items():
        stored = sizes.get(f"{folder}data/{tensor.storage.key}", -1)
        if stored < tensor.end * _BYTES.get(tensor.header.dtype, 1):
            raise damaged(path, f"the bytes of {name} are not all there")
    return tensors


class _Reader(pickle.Unpickler):
    """Builds stand-ins for tensors; knows the names that rebuild them, and no others."""

    def find_class(self, module: str, name: str) -> Any:
        """Raises _Unsafe for whatever is not part of a tensor."""
        known = _KNOWN.get((module, name))
        if known is None:
            raise _Unsafe(f"{module}.{name}")
        return known

    def persistent_load(self, pid: Any) -> _Storage:
        """A storage: ("storage", its kind, its member, its device, its count of elements)."""
        _, kind, key, _, count = pid
        return _Storage(kind.dtype, str(key), int(count))


@dataclass(frozen=True)
class _Kind:
    """A class of storages or a dtype of torch, in safetensors' word; None: untyped."""

    dtype: str | None


def _tensor(storage: _Storage, offset: int, size: Any, stride: Any, *rest: Any) -> _Tensor:
    assert storage.dtype is not None
    return _sized(storage, storage.dtype, offset, size, stride)


def _typed_tensor(
    storage: _Storage, offset: int, size: Any, stride: Any, grad: bool, hooks: Any, dtype: _Kind,
    *rest: Any,
) -> _Tensor:  # fmt: skip
    assert dtype.dtype is not None
    return _sized(storage, dtype.dtype, offset, size, stride)


def _sized(storage: _Storage, dtype: str, offset: int, size: Any, stride: Any) -> _Tensor:
    shape = tuple(int(length) for length in size)
    last = sum((length - 1) * int(step) for length, step in zip(shape, stride, strict=True))
    end = int(offset) + last + 1 if math.prod(shape) else 0
    return _Tensor(TensorHeader(dtype, shape), storage, end)


def _parameter(tensor: _Tensor, *rest: Any) -> _Tensor:
    return tensor


_KNOWN: dict[tuple[str, str], Callable[..., Any] | _Kind] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("torch", "Size"): tuple,
    ("torch.storage", "UntypedStorage"): _Kind(None),
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("torch._utils", "_rebuild_tensor_v3"): _typed_tensor,
    ("torch._utils", "_rebuild_parameter"): _parameter,
    **{("torch", name): _Kind(dtype) for name, dtype in {**_STORAGES, **_DTYPES}.items()},
}
