"""The learner's files: what was written comes back, and files of two checkpoints are told apart."""

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
    "state": {"optimizer": {"steps": {"policy": 3}, "skipped_steps": 0, "sizes": {"policy": 1}}},
}


def test_it_comes_back_exactly(tmp_path):
    write_learner(tmp_path, SAVED)
    back = read_learner(tmp_path)
    assert back["state"] == SAVED["state"]
    assert back["tensors"].keys() == SAVED["tensors"].keys()
    for name, tensor in SAVED["tensors"].items():  # the second one is not contiguous
        assert torch.equal(back["tensors"][name], tensor)
        assert back["tensors"][name].dtype == tensor.dtype


def test_rows_of_several_files_are_read_by_themselves(tmp_path):
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
    one, same = read["a"][3:5], read["a"][3:6]
    assert one.data_ptr() == same.data_ptr()


def test_tensors_are_stored_under_their_own_names(tmp_path):
    write_learner(tmp_path, SAVED)
    with safe_open(tmp_path / "learner.safetensors", framework="numpy") as file:
        assert sorted(file.keys()) == sorted(SAVED["tensors"])


def test_a_learner_without_tensors(tmp_path):
    write_learner(tmp_path, {"tensors": {}, "state": {"a": 1}})
    assert read_learner(tmp_path) == {"tensors": {}, "state": {"a": 1}}


def test_what_json_does_not_have_is_refused(tmp_path):
    with pytest.raises(TypeError, match="not JSON serializable"):
        write_learner(tmp_path, {"tensors": {}, "state": {"f": print}})


@pytest.mark.parametrize(
    ("there", "said"),
    [
        (("a",), r"learner\.safetensors lacks the tensor 'b': it is not of learner\.json"),
        (("a", "b", "c"), r"learner\.safetensors holds besides the tensor 'c'"),
    ],
)
def test_files_of_two_checkpoints_are_told_apart(tmp_path, there, said):
    write_learner(tmp_path, {"tensors": {"a": torch.ones(1), "b": torch.ones(1)}, "state": {}})
    save_file({name: torch.ones(1) for name in there}, tmp_path / "learner.safetensors")
    with pytest.raises(CheckpointError, match=said):
        read_learner(tmp_path)


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ([], "it holds no mapping of names to values"),
        ({"state": {}}, "it lacks 'tensors'"),
        ({"state": [], "tensors": [], "files": []}, r"state can't be \[\]"),
        ({"state": {}, "tensors": [[]], "files": []}, "unhashable"),
        ({"state": {}, "tensors": []}, "it lacks 'files'"),
        ({"state": {}, "tensors": [], "files": ["other"]}, r"files can't be"),
    ],
)
def test_counters_that_are_damaged(tmp_path, facts, said):
    write_learner(tmp_path, SAVED)
    (tmp_path / "learner.json").write_text(json.dumps(facts))
    with pytest.raises(CheckpointError, match=rf"learner\.json is damaged .*{said}"):
        read_learner(tmp_path)
