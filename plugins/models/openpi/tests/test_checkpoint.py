"""Weights go out and come back equal; files that don't fit say all that is wrong at once."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rlcore_flow.actor import FlowActor
from rlcore_flow.denoising import FlowConfig
from rlcore_flow.heads import CriticConfig
from rlcore_flow.stored import save_heads
from rlcore_model_openpi.checkpoint import (
    HEADS_FILE,
    NETWORK_FILE,
    load_heads,
    load_network,
    save_network,
)
from rlcore_model_openpi.network.pi0 import PiNetwork
from rlcore_model_openpi.sizes import SIZES
from rlcore_model_openpi.weight_files import find_weights, heads_of
from safetensors.torch import load_file, save_file
from torch import Tensor

from rlcore.contracts.errors import CheckpointError

GOLDEN = Path(__file__).parent / "golden" / "pi0_tiny.safetensors"
EMBEDDING = "paligemma_with_expert.paligemma.model.language_model.embed_tokens.weight"
TIED = "paligemma_with_expert.paligemma.lm_head.weight"
UNUSED = "paligemma_with_expert.gemma_expert.lm_head.weight"
CONV = replace(SIZES["tiny"], image_size=16)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An openpi checkpoint of size tiny_siglip."""
    shutil.copy(GOLDEN, tmp_path / NETWORK_FILE)
    (tmp_path / NETWORK_FILE).chmod(0o644)
    return tmp_path


def edit(folder: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    tensors = load_file(folder / NETWORK_FILE)
    change(tensors)
    save_file(tensors, folder / NETWORK_FILE)


def loaded(folder: Path) -> PiNetwork:
    network = PiNetwork(SIZES["tiny_siglip"])
    load_network(network, folder)
    return network


def assert_holds_golden(network: PiNetwork) -> None:
    golden = load_file(GOLDEN)
    state = network.state_dict()
    assert state.keys() == golden.keys() - {TIED, UNUSED}
    for name, value in state.items():
        assert torch.equal(value, golden[name]), name


def test_openpi_file(folder: Path) -> None:
    assert_holds_golden(loaded(folder))


def test_tied_embedding_under_either_name(folder: Path) -> None:
    edit(folder, lambda tensors: tensors.pop(EMBEDDING))
    assert_holds_golden(loaded(folder))
    edit(folder, lambda tensors: tensors.update({EMBEDDING: tensors.pop(TIED)}))
    assert_holds_golden(loaded(folder))


def test_unused_head_may_be_absent(folder: Path) -> None:
    edit(folder, lambda tensors: tensors.pop(UNUSED))
    assert_holds_golden(loaded(folder))


def test_missing_vision_level(folder: Path) -> None:
    def drop_level(tensors: dict[str, Tensor]) -> None:
        for name in list(tensors):
            tensors[name.replace(".vision_model.", ".")] = tensors.pop(name)

    edit(folder, drop_level)
    assert_holds_golden(loaded(folder))


def test_onto_the_meta_device(folder: Path) -> None:
    with torch.device("meta"):
        network = PiNetwork(SIZES["tiny_siglip"])
    load_network(network, folder)
    assert_holds_golden(network)


def test_saved_keys_are_openpis(folder: Path, tmp_path: Path) -> None:
    save_network(loaded(folder), tmp_path / "again")
    golden, again = load_file(GOLDEN), load_file(tmp_path / "again" / NETWORK_FILE)
    assert again.keys() == golden.keys() - {EMBEDDING}
    assert again[UNUSED].shape == golden[UNUSED].shape and not again.pop(UNUSED).any()
    for name, value in again.items():
        assert torch.equal(value, golden[name]), name


def test_one_error_names_all_faults(folder: Path, refused: Callable[..., Any]) -> None:
    def spoil(tensors: dict[str, Tensor]) -> None:
        del tensors["state_proj.bias"]
        tensors["time_mlp_in.weight"] = torch.zeros(2)
        tensors["action_in_proj.weight"] = torch.zeros(32, 7)

    edit(folder, spoil)
    network = PiNetwork(SIZES["tiny_siglip"])
    before = network.action_out_proj.weight.clone()
    with refused(
        CheckpointError,
        folder / NETWORK_FILE,
        "missing (1): state_proj.bias",
        "unexpected (1): time_mlp_in.weight",
        "action_in_proj.weight is [32, 7]",
        "[32, 32]",
    ):
        load_network(network, folder)
    assert torch.equal(network.action_out_proj.weight, before)  # nothing was loaded


def test_another_generation_is_refused(folder: Path, refused: Callable[..., Any]) -> None:
    # π0.5 has 7 norms (2 in each of 3 layers, and the last) with 2 tensors each, where π0 has one,
    # and 4 tensors of its time MLP where π0 has 6: 18 missing, of which 8 are named; 13 too many
    with refused(CheckpointError, "missing (18)", "10", "unexpected (13)"):
        load_network(PiNetwork(replace(SIZES["tiny_siglip"], pi05=True)), folder)


def actor(critic: CriticConfig | None, method: str = "flow_noise") -> FlowActor:
    return FlowActor(PiNetwork(CONV), FlowConfig(num_steps=2, noise_method=method), critic)


def test_heads_that_are_not_stored_stay_fresh(tmp_path: Path) -> None:
    critic = CriticConfig(hidden=(8,))
    save_heads(actor(critic, "flow_sde"), tmp_path)
    assert load_heads(actor(critic), tmp_path) == ["noise_head"]
    assert load_heads(actor(None, "flow_sde"), tmp_path) == []


def test_head_of_another_shape(tmp_path: Path, refused: Callable[..., Any]) -> None:
    save_heads(actor(CriticConfig(hidden=(8,))), tmp_path)
    with refused(CheckpointError, HEADS_FILE):
        load_heads(actor(CriticConfig(hidden=(8,), elapsed=True)), tmp_path)


def test_heads_as_rlinf_stores_them(folder: Path, refused: Callable[..., Any]) -> None:
    """Beside the network's weights, with the noise head's own names and range."""
    golden = Path(__file__).parent / "golden"
    stored = load_file(golden / "pi0_flow_sde.safetensors")
    stored |= load_file(golden / "pi0_flow_noise_joint.safetensors")
    heads = {name[2:]: value for name, value in stored.items() if name.startswith("w.")}
    edit(folder, lambda tensors: tensors.update(heads))
    flow = FlowConfig(num_steps=4, noise_method="flow_noise")
    full = FlowActor(loaded(folder), flow, CriticConfig())
    assert load_heads(full, folder) == []
    assert full.value_head is not None and full.noise_head is not None
    assert torch.equal(full.value_head.mlp[6].weight, heads["value_head.mlp.6.weight"])
    third = heads["noise_head.mlp_logvar.moduleList.2.linear_1.weight"]
    assert torch.equal(full.noise_head.mlp[4].weight, third)
    save_heads(full, folder)
    with refused(CheckpointError, "rl_heads.safetensors"):
        heads_of(folder, find_weights(folder))
