"""Files of torch.save: their headers, and what is refused without being run."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from rlcore_weights.headers import TensorHeader
from rlcore_weights.tensors import WeightsFile
from rlcore_weights.torch_files import read_pickled_headers, resave
from safetensors.torch import load_file, save_file

from rlcore.contracts.errors import CheckpointError

TWO = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(4, dtype=torch.bfloat16)}


def saved(path: Path, content: object, **how) -> Path:
    torch.save(content, path, **how)
    return path


@pytest.fixture
def refuse(refused):
    """Check that both readers refuse a file."""

    def refuse(path: Path, *words: object, text: bool = True) -> None:
        with refused(CheckpointError, path.name, *words, text=text):
            read_pickled_headers(path)
        with refused(CheckpointError, path.name, *words, text=False):
            WeightsFile(path)

    return refuse


@pytest.mark.parametrize(
    "around",
    [
        lambda state: state,
        lambda state: {"state_dict": state, "epoch": 3},
        lambda state: {"model_state_dict": state},
        lambda state: {"model": state, "step": torch.tensor(3), "name": "x"},
        lambda state: {"fsdp_checkpoint": {"model": state}},
    ],
)
def test_names_dtypes_and_shapes_wherever_trainers_put_them(tmp_path, around):
    path = saved(tmp_path / "f.pt", around(TWO))
    assert read_pickled_headers(path) == {
        "a": TensorHeader("F32", (2, 3)),
        "b": TensorHeader("BF16", (4,)),
    }
    with WeightsFile(path) as file:
        assert torch.equal(file.read("a"), TWO["a"]) and torch.equal(file.read("b"), TWO["b"])


def test_the_tensors_of_modules_parts_of_others_and_all_dtypes(tmp_path):
    layer = torch.nn.Linear(2, 3)
    tensors = {
        **layer.state_dict(),
        "parameter": torch.nn.Parameter(torch.zeros(2, dtype=torch.float16)),
        "part": torch.arange(6.0).reshape(2, 3).T[1:],  # not contiguous, and not from the start
        "scalar": torch.tensor(1.5, dtype=torch.float64),
        "empty": torch.zeros(0, 4, dtype=torch.int64),
        "small": torch.zeros(3, dtype=torch.float8_e4m3fn),
        "yes": torch.tensor([True]),
    }
    found = read_pickled_headers(saved(tmp_path / "f.pt", tensors))
    assert {name: one.shape for name, one in found.items()} == {
        name: tuple(tensor.shape) for name, tensor in tensors.items()
    }
    dtypes = {name: one.dtype for name, one in found.items()}
    assert dtypes == {
        "weight": "F32",
        "bias": "F32",
        "parameter": "F16",
        "part": "F32",
        "scalar": "F64",
        "empty": "I64",
        "small": "F8_E4M3",
        "yes": "BOOL",
    }
    with WeightsFile(tmp_path / "f.pt") as file:
        assert torch.equal(file.read("part"), tensors["part"])


class Evil:
    def __reduce__(self):
        return os.mkdir, ("evil",)


@pytest.mark.parametrize("how", ["torch.save", "an old torch.save", "pickle.dump"])
def test_code_in_a_pickle_is_named_and_not_run(tmp_path, monkeypatch, refuse, how):
    monkeypatch.chdir(tmp_path)
    content = {"a": torch.zeros(2), "b": Evil()}
    if how == "pickle.dump":
        (tmp_path / "f.pt").write_bytes(pickle.dumps({"b": Evil()}))
    else:
        saved(tmp_path / "f.pt", content, _use_new_zipfile_serialization=how == "torch.save")
    refuse(tmp_path / "f.pt", "posix.mkdir", "safetensors")
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (torch.nn.Linear(1, 1), "torch.nn.modules.linear.Linear"),
        ({"a": np.zeros(3)}, "multiarray._reconstruct"),  # of numpy.core in numpy 1
    ],
)
def test_other_objects_are_named(tmp_path, refuse, content, named):
    refuse(saved(tmp_path / "f.pt", content), "unsafe pickle", named, text=False)


def test_files_of_other_content_are_refused(tmp_path, refuse):
    refuse(tmp_path / "gone.pt")
    whole = saved(tmp_path / "whole.pt", TWO).read_bytes()
    for name, content in (("cut", whole[:300]), ("page", b"<html>"), ("nothing", b"")):
        (tmp_path / f"{name}.pt").write_bytes(content)
        refuse(tmp_path / f"{name}.pt", text=False)  # with zipfile's own words
    (tmp_path / "pointer.pt").write_text("version https://git-lfs.github.com/spec/v1\n")
    refuse(tmp_path / "pointer.pt", "git lfs pull")
    for content in ([1, 2], {"lr": 3}, {}):
        refuse(saved(tmp_path / "other.pt", content))


def test_a_storage_that_is_not_all_there_is_refused(tmp_path, refuse):
    saved(tmp_path / "whole.pt", TWO)
    with (
        zipfile.ZipFile(tmp_path / "whole.pt") as whole,
        zipfile.ZipFile(tmp_path / "short.pt", "w") as short,
    ):
        for name in whole.namelist():
            content = whole.read(name)
            short.writestr(name, content[:-1] if name.endswith("data/0") else content)
    refuse(tmp_path / "short.pt")


def test_no_tensor_library_is_loaded(tmp_path):
    saved(tmp_path / "f.pt", TWO)
    code = (
        "import sys; from pathlib import Path; from rlcore_weights.torch_files import "
        "read_pickled_headers as read; print(len(read(Path(sys.argv[1]))), 'torch' in sys.modules)"
    )
    words = [sys.executable, "-c", code, str(tmp_path / "f.pt")]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "2 False\n"


def test_the_form_of_before_torch_1_6(tmp_path, refuse):
    """Two tensors of one storage, and one of another; cut off, it is refused by its length."""
    shared = torch.arange(10.0)
    tensors = {"a": shared[2:5], "b": shared[5:], "c": torch.ones(3, dtype=torch.bfloat16)}
    path = saved(tmp_path / "f.pt", tensors, _use_new_zipfile_serialization=False)
    assert read_pickled_headers(path) == {
        "a": TensorHeader("F32", (3,)),
        "b": TensorHeader("F32", (5,)),
        "c": TensorHeader("BF16", (3,)),
    }
    with WeightsFile(path) as file:
        assert all(torch.equal(file.read(name), tensors[name]) for name in tensors)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    # storages stand in the order of their addresses, so any of the three may be the incomplete one
    refuse(path, "damaged or incomplete", text=False)
    path.write_bytes(pickle.dumps({"a": 1}))
    refuse(path, "torch.save")


def test_counters_among_the_weights_are_passed_over(tmp_path, refuse):
    """As trainers add them. The state of an optimizer is refused."""
    path = saved(tmp_path / "f.pt", {**TWO, "global_step": 7, "_extra_state": None})
    assert read_pickled_headers(path).keys() == TWO.keys()
    with WeightsFile(path) as file:
        assert torch.equal(file.read("b"), TWO["b"])
    optimizer = {"state": {0: {"step": torch.tensor(1.0)}}, "scale": torch.tensor(2.0)}
    refuse(saved(tmp_path / "o.pt", optimizer))


@pytest.mark.quick(1)
@pytest.mark.parametrize(("several", "folder"), [(False, "w"), (True, 'Ann\'s "$HOME" `1`')])
def test_the_command_that_converts_works(tmp_path, several, folder):
    """Also where two names share one tensor, which safetensors does not write, and in a folder
    whose name a shell would read as something else."""
    tmp_path = tmp_path / folder
    tmp_path.mkdir()
    shared = torch.ones(3)
    saved(tmp_path / "w-1.bin", {"a": TWO["a"], "tied": shared, "too": shared})
    target = tmp_path / "model.safetensors"
    command = resave(tmp_path / "w-1.bin", target)
    if several:
        saved(tmp_path / "w-2.bin", {"b": TWO["b"]})
        command = resave(tmp_path, target, pattern="w-*.bin")
    subprocess.run(command.replace("python", sys.executable, 1), shell=True, check=True)
    found = load_file(target)
    assert found.keys() == ({"a", "tied", "too", "b"} if several else {"a", "tied", "too"})
    assert torch.equal(found["a"], TWO["a"])


def test_bytes_that_changed_after_they_were_written_are_refused(tmp_path, refused):
    """One of a tensor's: torch loads such a file and says nothing."""
    path = saved(tmp_path / "f.pt", TWO)
    content = path.read_bytes()
    place = content.index(TWO["a"].numpy().tobytes())
    path.write_bytes(content[:place] + b"\x01" + content[place + 1 :])
    assert torch.load(path, weights_only=True)["a"][0, 0] != 0
    with refused(CheckpointError, "f/data/0"):
        WeightsFile(path)


def test_a_name_in_the_archive_that_changed_is_refused(tmp_path, refused):
    """That of a storage where its bytes begin, which zipfile compares with its list of names."""
    path = saved(tmp_path / "f.pt", TWO)
    content = path.read_bytes()
    path.write_bytes(content.replace(b"f/data/0", b"f/da\xf4a/0", 1))
    with refused(CheckpointError, "f.pt", text=False):  # with zipfile's own words
        WeightsFile(path)


@pytest.mark.quick(5)
@pytest.mark.parametrize("kind", ["pt", "safetensors"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("bad", [float("nan"), float("-inf")])
def test_weights_that_are_not_finite_are_refused(tmp_path, kind, dtype, bad, refused):
    state = {"a": torch.ones(2, 3, dtype=dtype), "b": torch.zeros(0), "c": torch.arange(2)}
    state["a"][1, 1] = bad
    path = tmp_path / f"f.{kind}"
    torch.save(state, path) if kind == "pt" else save_file(state, path)
    with WeightsFile(path) as file:
        assert file.read("b").shape == (0,) and file.read("c").tolist() == [0, 1]
        with refused(CheckpointError, f"{path.name}: a"):
            file.read("a")
