"""Read the headers of a `torch.save` file without torch and without executing its pickle.

Such a file is a zip archive: a pickle with names, shapes and dtypes, and a member with the bytes of
each storage. Before torch 1.6 it was a plain file with the pickles first and the bytes after them.
A pickle may call any function of any package. Here only the functions that rebuild tensors are
known, and they are replaced by stand-ins. A file that calls anything else is refused as unsafe.
"""

from __future__ import annotations

import io
import math
import pickle
import shlex
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from rlcore.contracts.errors import CheckpointError
from rlcore.files.damaged_files import damaged_error
from rlcore.files.reading import open_regular
from rlcore.files.safetensors_header import TensorHeader, check_regular, check_tensor_count

MIB = 1 << 20
LARGEST_PICKLE = 64 * MIB  # names and shapes of 2000 tensors take 300 KiB
STATES: tuple[tuple[str, ...], ...] = (
    ("state_dict",),
    ("model_state_dict",),
    ("model",),
    ("module",),
    ("fsdp_checkpoint", "model"),
    (),
)
"""Keys below which trainers save the weights; (): at the top level. Tried in this order."""

_DTYPES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint8": "U8",
    "bool": "BOOL",
}
_STORAGES = {
    "DoubleStorage": "F64",
    "FloatStorage": "F32",
    "HalfStorage": "F16",
    "BFloat16Storage": "BF16",
    "LongStorage": "I64",
    "IntStorage": "I32",
    "ShortStorage": "I16",
    "CharStorage": "I8",
    "ByteStorage": "U8",
    "BoolStorage": "BOOL",
}
_BYTES = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "F16": 2, "BF16": 2, "I16": 2}  # others: 1
_PICKLE = b"\x80"  # first byte of a pickle: the file is not an archive
_MARK = 0x1950A86A20F9469CFC6C  # the magic number in files of torch before 1.6
_COUNT = 8  # bytes of the number of elements before each storage


class _Unsafe(Exception):
    """The pickle refers to something that is not part of a tensor; the message names it."""


@dataclass(frozen=True)
class _Storage:
    """A storage: dtype (None: each tensor has its own), key in the file, number of elements."""

    dtype: str | None
    key: str
    count: int


@dataclass(frozen=True)
class _Tensor:
    """Stand-in for a tensor."""

    header: TensorHeader
    storage: _Storage
    end: int  # number of elements of the storage, from its start, that the tensor spans


def read_pickled_headers(path: Path) -> dict[str, TensorHeader]:
    """Read the headers of the tensors in a `torch.save` file, by name.

    The counterpart of :func:`rlcore.files.safetensors_header.read_headers`.

    Raises:
        CheckpointError: the file is missing, truncated or not of `torch.save`, holds no weights, or
            is an unsafe pickle.
    """
    tree, sizes = _content(path)
    _, state = find_state(path, tree, _Tensor)
    tensors = {str(name): tensor for name, tensor in state.items()}
    for name, tensor in tensors.items():
        if sizes.get(tensor.storage.key, 0) < tensor.end * _bytes(tensor.header.dtype):
            raise damaged_error(path, f"the bytes of {name} are not all there")
    return {name: tensor.header for name, tensor in tensors.items()}


def place_of_weights(path: Path) -> tuple[str, ...]:
    """Return the entry of :data:`STATES` below which a `torch.save` file has its weights.

    Raises:
        CheckpointError: as for :func:`read_pickled_headers`, except that truncated data is not
            noticed.
    """
    return find_state(path, _content(path)[0], _Tensor)[0]


def unsafe(path: Path, content: str) -> CheckpointError:
    """Return the error for a file whose loading could run code.

    Args:
        path: the file.
        content: the content besides tensors, for the message.
    """
    return CheckpointError(
        f"{path} is an unsafe pickle: besides tensors it holds {content}, and loading that can run "
        "any code",
        hint="get the weights as .safetensors, or have them saved without anything else: "
        "torch.save(model.state_dict(), FILE)",
    )


def resave(path: Path, target: Path, *, pattern: str = "", below: tuple[str, ...] = ()) -> str:
    """Return a shell command that converts a `torch.save` file to safetensors.

    Args:
        path: the file, or with `pattern` the folder of several files.
        target: the file to write.
        pattern: glob pattern of several files, which are written into one.
        below: keys below which the weights are, an entry of :data:`STATES`.
    """
    place = "".join(f"[{name!r}]" for name in below)
    loaded = f"torch.load({{}}, map_location='cpu', weights_only=True){place}.items()"
    if pattern:
        files = f"sorted(pathlib.Path({str(path)!r}).glob({pattern!r}))"
        tensors = f"for f in {files} for n, t in {loaded.format('f')}"
    else:
        tensors = f"for n, t in {loaded.format(repr(str(path)))}"
    code = (
        "import pathlib, torch; from safetensors.torch import save_file; "
        f"save_file({{n: t.clone().contiguous() {tensors} if torch.is_tensor(t)}}, "
        f"{str(target)!r}, {{'format': 'pt'}})"
    )
    # double quotes are easier to read than what shlex makes of code with single ones
    readable = not set(code) & set('"$`\\!')
    return f'python -c "{code}"' if readable else f"python -c {shlex.quote(code)}"


def find_state(path: Path, tree: Any, kind: type) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Find the weights in the unpickled content of a `torch.save` file.

    Args:
        path: the file, for error messages.
        tree: its content.
        kind: class of the tensors in it.

    Returns:
        The entry of :data:`STATES` below which the weights are, and the weights by name. Values
        that are not tensors, such as counters, are left out.

    Raises:
        CheckpointError: the file has no weights under any of these keys.
    """
    for names in STATES:
        state = tree
        for name in names:
            state = state.get(name) if isinstance(state, Mapping) else None
        if not isinstance(state, Mapping) or any(isinstance(v, Mapping) for v in state.values()):
            continue
        tensors = {name: value for name, value in state.items() if isinstance(value, kind)}
        if tensors:
            return names, tensors
    places = ", ".join(".".join(names) for names in STATES if names)
    raise CheckpointError(
        f"{path} holds no mapping of names to tensors, neither at the top nor as {places}",
        hint="save the weights alone: torch.save(model.state_dict(), FILE)",
    )


def _content(path: Path) -> tuple[Any, dict[str, int]]:
    """Return a file's content, with stand-ins for tensors, and the bytes present of each storage.

    Raises:
        CheckpointError: the file is missing, not of `torch.save`, or an unsafe pickle.
    """
    check_regular(path)
    try:
        with open_regular(path) as file:
            if file.read(1) == _PICKLE:
                file.seek(0)
                return _before_1_6(file)
            file.seek(0)
            with zipfile.ZipFile(file) as archive:
                return _archived(path, archive)
    except OSError as error:
        raise CheckpointError(f"{path} can't be read: {error.strerror or error}") from error
    except _Unsafe as error:
        raise unsafe(path, str(error)) from None
    except CheckpointError:
        raise
    except Exception as error:  # a damaged archive or pickle may raise any error
        raise damaged_error(path, str(error) or "it is not a file of torch.save") from error


def _archived(path: Path, archive: zipfile.ZipFile) -> tuple[Any, dict[str, int]]:
    sizes = {info.filename: info.file_size for info in archive.infolist()}
    check_tensor_count(path, sizes)
    (pickled,) = (name for name in sizes if name.endswith("/data.pkl"))
    if sizes[pickled] > LARGEST_PICKLE:
        raise damaged_error(path, f"{pickled} is larger than {LARGEST_PICKLE // MIB} MiB")
    tree = _Reader(io.BytesIO(archive.read(pickled))).load()
    folder = f"{pickled.removesuffix('data.pkl')}data/"
    return tree, {name.removeprefix(folder): size for name, size in sizes.items()}


def _before_1_6(file: BinaryIO) -> tuple[Any, dict[str, int]]:
    """Read a file of torch before 1.6.

    It holds five pickles: a magic number, the protocol version, facts of the machine, the content,
    and the keys of the storages. The storages follow in the order of their keys, each preceded by
    its number of elements.
    """
    end = file.seek(0, io.SEEK_END)
    file.seek(0)
    stream = io.BytesIO(file.read(LARGEST_PICKLE))
    reader = _Reader(stream)
    if reader.load() != _MARK:
        raise ValueError("it is not a file of torch.save")
    _, _, tree, keys = (reader.load() for _ in range(4))
    sizes = {}
    offset = stream.tell()
    for key in map(str, keys):
        storage = reader.storages[key]
        offset += _COUNT
        whole = storage.count * _bytes(storage.dtype)
        sizes[key] = min(whole, max(end - offset, 0))
        offset += whole
    return tree, sizes


def _bytes(dtype: str | None) -> int:
    return _BYTES.get(dtype or "", 1)


class _Reader(pickle.Unpickler):
    """An unpickler that builds stand-ins for tensors and refuses every other class or function.

    Attributes:
        storages: the storages read so far, by key.
    """

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file)
        self.storages: dict[str, _Storage] = {}

    def find_class(self, module: str, name: str) -> Any:
        """Return the stand-in for a class or function.

        Raises:
            _Unsafe: it is not part of a tensor.
        """
        stand_in = _STAND_INS.get((module, name))
        if stand_in is None:
            raise _Unsafe(f"{module}.{name}")
        return stand_in

    def persistent_load(self, pid: Any) -> _Storage:
        """Return the storage of ("storage", kind, key, device, number of elements)."""
        _, kind, key, _, count, *_ = pid
        return self.storages.setdefault(str(key), _Storage(kind.dtype, str(key), int(count)))


@dataclass(frozen=True)
class _Kind:
    """Stand-in for a storage class or dtype of torch, with safetensors' name; None: untyped."""

    dtype: str | None


def _tensor(storage: _Storage, offset: int, size: Any, stride: Any, *rest: Any) -> _Tensor:
    """Build a stand-in; replaces torch's functions that rebuild tensors.

    For an untyped storage the dtype is one of the arguments in `rest`.
    """
    dtypes = [argument.dtype for argument in rest if isinstance(argument, _Kind)]
    dtype = dtypes[0] if dtypes else storage.dtype
    assert dtype is not None
    shape = tuple(int(length) for length in size)
    last = sum((length - 1) * int(step) for length, step in zip(shape, stride, strict=True))
    end = int(offset) + last + 1 if math.prod(shape) else 0
    return _Tensor(TensorHeader(dtype, shape), storage, end)


_STAND_INS: dict[tuple[str, str], Callable[..., Any] | _Kind] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("torch", "Size"): tuple,
    ("torch.storage", "UntypedStorage"): _Kind(None),
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("torch._utils", "_rebuild_tensor_v3"): _tensor,
    ("torch._utils", "_rebuild_parameter"): lambda tensor, *rest: tensor,
    **{("torch", name): _Kind(dtype) for name, dtype in {**_STORAGES, **_DTYPES}.items()},
}
