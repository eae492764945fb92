"""Weights in files, and adapters merged into them."""

from __future__ import annotations

import torch
from peft import LoraConfig, inject_adapter_in_model
from rlcore_weights.tensors import (
    MergedWeights,
    WeightsFile,
    plain_parameters,
    shapes_of,
    write_weights,
)
from torch import nn

from rlcore.contracts.errors import CheckpointError


def test_a_round_trip(tmp_path):
    transposed = torch.arange(6.0).reshape(2, 3).T  # not contiguous
    write_weights(tmp_path / "deep" / "w.safetensors", {"a": transposed, "b": torch.tensor(2.0)})
    with WeightsFile(tmp_path / "deep" / "w.safetensors") as file:
        assert {name: header.shape for name, header in file.headers.items()} == {
            "a": (3, 2),
            "b": (),
        }
        assert torch.equal(file.read("a"), transposed)
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["w.safetensors"]


def test_a_damaged_file_is_the_user_s_error(tmp_path, refused):
    path = tmp_path / "w.safetensors"
    with refused(CheckpointError, "w.safetensors"):
        WeightsFile(path)
    path.write_bytes(b"12345678")
    with refused(CheckpointError, path, "damaged", text=False):  # with safetensors' own words
        WeightsFile(path)


def test_adapters_are_merged_by_hand():
    """W + alpha / r B A; the names are those without adapters."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(3, 2), nn.Conv2d(1, 1, 2))
    names = dict(network.named_parameters()).keys()
    weight = network[0].weight.detach().clone()
    assert MergedWeights(network) == {}
    config = LoraConfig(r=2, lora_alpha=6, target_modules=["0", "1"])
    inject_adapter_in_model(config, network)
    plain = plain_parameters(network)
    assert plain.keys() == names and shapes_of(plain)["0.weight"] == (2, 3)
    a, b = network[0].lora_A.default.weight, network[0].lora_B.default.weight
    with torch.no_grad():
        b.normal_()
    merged = MergedWeights(network)
    assert merged.keys() == {"0.weight", "1.weight"}
    torch.testing.assert_close(merged["0.weight"], (weight + 3 * b @ a).detach())
    assert torch.equal(merged["1.weight"], plain["1.weight"])  # its adapter is still zero
