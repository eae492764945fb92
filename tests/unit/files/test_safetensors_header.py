"""Headers of safetensors files are read, and invalid ones refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from rlcore.contracts.errors import CheckpointError
from rlcore.files.safetensors_header import TensorHeader, read_headers

TWO = {"a": torch.zeros(2, 3), "b": torch.zeros(4, dtype=torch.bfloat16)}


def written(path: Path, header: object, tensors: int = 0) -> Path:
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(tensors))
    return path


def test_names_dtypes_and_shapes(tmp_path: Path):
    save_file(TWO, tmp_path / "f.safetensors", metadata={"format": "pt"})
    assert read_headers(tmp_path / "f.safetensors") == {
        "a": TensorHeader("F32", (2, 3)),
        "b": TensorHeader("BF16", (4,)),
    }


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.int64, torch.bool])
def test_headers_of_all_dtypes_are_read(tmp_path: Path, dtype: torch.dtype):
    tensors = {"x": torch.zeros(3, 0, 5).to(dtype), "y": torch.tensor(1).to(dtype)}
    save_file(tensors, tmp_path / "f.safetensors")
    headers = read_headers(tmp_path / "f.safetensors")
    shapes = {name: header.shape for name, header in headers.items()}
    assert shapes == {"x": (3, 0, 5), "y": ()}


def entry(dtype: object = "F32", shape: object = (2,), place: object = (0, 8)) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": place}


@pytest.mark.parametrize(
    ("header", "tensors"),
    [
        ({"a": entry()}, 7),  # cut off
        ({"a": entry()}, 9),
        ([], 0),
        ({"a": 3}, 0),
        ({"a": {"dtype": "F32"}}, 8),
        ({"a": entry(dtype="F33")}, 8),
        ({"a": entry(shape=(3,))}, 8),
        ({"a": entry(shape=(-2,))}, 8),
        ({"a": entry(shape=(2.0,))}, 8),
        ({"a": entry(shape=(True, 2))}, 8),
        ({"a": entry(shape=(2**40, 2**40))}, 8),
        ({"a": entry(place=(8, 0))}, 8),
        ({"a": entry(place=(4, 12))}, 12),
        ({"a": entry(), "b": entry(place=(12, 20))}, 20),  # a hole
        ({"a": entry(), "b": entry(place=(4, 12))}, 12),  # overlap
        ({"a": entry(), "b": entry()}, 8),
    ],
)
def test_an_invalid_header_is_refused(refused, tmp_path: Path, header: object, tensors: int):
    path = written(tmp_path / "f.safetensors", header, tensors)
    with refused(CheckpointError, "f.safetensors", text=False):  # the text of the library
        read_headers(path)


def test_a_file_of_another_format_is_refused(refused, tmp_path: Path):
    with refused(CheckpointError, "gone.safetensors"):
        read_headers(tmp_path / "gone.safetensors")
    (tmp_path / "page").write_text("<html>not found</html>")
    (tmp_path / "cut").write_bytes(written(tmp_path / "whole", {"a": entry()}, 8).read_bytes()[:20])
    (tmp_path / "words").write_bytes((4).to_bytes(8, "little") + b"none")
    (tmp_path / "deep").write_bytes((10**5).to_bytes(8, "little") + b"[" * 10**5)
    for name in ("page", "cut", "words", "deep"):
        with refused(CheckpointError, name, text=False):
            read_headers(tmp_path / name)


def test_a_pipe_is_refused_at_once(refused, tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    with refused(CheckpointError, "pipe"):
        read_headers(tmp_path / "pipe")


def test_no_tensor_library_is_loaded(tmp_path: Path):
    save_file(TWO, tmp_path / "f.safetensors")
    code = (
        "import sys; from pathlib import Path; "
        "from rlcore.files.safetensors_header import read_headers; "
        "print(len(read_headers(Path(sys.argv[1]))), 'torch' in sys.modules)"
    )
    words = [sys.executable, "-c", code, str(tmp_path / "f.safetensors")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout == "2 False\n"
