"""The learner's files: exact round trip; files of two checkpoints are not mixed."""

import json

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from rlcore.contracts.errors import CheckpointError
from rlcore.runs.learner_state import read_learner, write_learner

SAVED = {
    "tensors": {
        "optimizer.policy.0.step": torch.tensor(3.0),
        "optimizer.policy.0.exp_avg": torch.arange(6, dtype=torch.bfloat16).reshape(2, 3).T,
    },
    "state": {"optimizer": {"steps": {"policy": 3}, "sizes": {"policy": 1}}},
}


def test_a_learner_is_read_back_exactly(tmp_path):
    write_learner(tmp_path, SAVED)
    back = read_learner(tmp_path)
    assert back["state"] == SAVED["state"]
    assert back["tensors"].keys() == SAVED["tensors"].keys()
    for name, tensor in SAVED["tensors"].items():  # the second one is not contiguous
        assert torch.equal(back["tensors"][name], tensor)
        assert back["tensors"][name].dtype == tensor.dtype


def test_rows_of_several_files_are_read_separately(tmp_path):
    """Of seven rows three files hold 3, 3 and 1; what lies in one file is not copied."""
    whole = torch.arange(14.0).reshape(7, 2)
    for part, rows in enumerate(whole.split(3)):
        saved = {"tensors": {"a": rows, "b": torch.tensor(1.0)}, "state": {}}
        if part:
            del saved["tensors"]["b"]
        write_learner(tmp_path, saved, part=part, parts=3)
    read = read_learner(tmp_path)["tensors"]
    assert list(read) == ["a", "b"] and read["b"] == 1.0
    assert read["a"].shape == whole.shape
    for first in range(8):
        for stop in range(first, 9):
            assert torch.equal(read["a"][first:stop], whole[first:stop]), (first, stop)
    assert torch.equal(read["a"][:], whole)
    rows = read["a"][3:5]
    same = read["a"][3:6]
    assert rows.data_ptr() == same.data_ptr()


def test_tensors_are_stored_under_their_own_names(tmp_path):
    write_learner(tmp_path, SAVED)
    with safe_open(tmp_path / "learner.safetensors", framework="numpy") as file:
        assert sorted(file.keys()) == sorted(SAVED["tensors"])


def test_a_learner_without_tensors(tmp_path):
    write_learner(tmp_path, {"tensors": {}, "state": {"a": 1}})
    assert read_learner(tmp_path) == {"tensors": {}, "state": {"a": 1}}


def test_a_state_that_json_cannot_hold_is_refused(tmp_path):
    with pytest.raises(TypeError):
        write_learner(tmp_path, {"tensors": {}, "state": {"f": print}})


@pytest.mark.parametrize(("names", "differing"), [("a", "'b'"), ("abc", "'c'")])
def test_files_of_two_checkpoints_are_refused(refused, tmp_path, names, differing):
    write_learner(tmp_path, {"tensors": {"a": torch.ones(1), "b": torch.ones(1)}, "state": {}})
    save_file({name: torch.ones(1) for name in names}, tmp_path / "learner.safetensors")
    with refused(CheckpointError, "learner.safetensors", differing):
        read_learner(tmp_path)


@pytest.mark.parametrize(
    ("facts", "word"),
    [
        ([], ""),
        ({"state": {}}, "tensors"),
        ({"state": [], "tensors": [], "files": []}, "state"),
        ({"state": {}, "tensors": [[]], "files": []}, ""),
        ({"state": {}, "tensors": []}, "files"),
        ({"state": {}, "tensors": [], "files": ["other"]}, "files"),
    ],
)
def test_damaged_counters_are_refused(refused, tmp_path, facts, word):
    write_learner(tmp_path, SAVED)
    (tmp_path / "learner.json").write_text(json.dumps(facts))
    with refused(CheckpointError, "learner.json", word):
        read_learner(tmp_path)
