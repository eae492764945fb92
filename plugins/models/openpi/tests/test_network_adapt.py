"""Which weights train, in which precision, and how many there are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from rlcore_flow.adapt import add_lora, freeze_vlm, set_precision
from rlcore_model_openpi.layout import adapter_count, expert_shapes
from rlcore_model_openpi.network.pi0 import PiNetwork, PrefixInputs
from rlcore_model_openpi.sizes import SIZES, NetworkSize
from rlcore_weights.headers import count as count_of
from torch import Tensor

from rlcore.contracts.errors import ConfigError

TINY = replace(SIZES["tiny"], image_size=16, max_token_len=4)
SIGLIP = replace(SIZES["tiny_siglip"], image_size=28, max_token_len=4)


def count(network: PiNetwork, *, trainable: bool = False) -> int:
    return sum(p.numel() for p in network.parameters() if p.requires_grad or not trainable)


def loss(network: PiNetwork) -> Tensor:
    size = network.size
    generator = torch.Generator().manual_seed(0)
    side = size.image_size
    inputs = PrefixInputs(
        images=torch.rand(2, 1, 3, side, side, generator=generator),
        image_masks=torch.ones(2, 1, dtype=torch.bool),
        tokens=torch.randint(0, 512, (2, 4), generator=generator),
        token_mask=torch.ones(2, 4, dtype=torch.bool),
    )
    actions = torch.randn(2, size.action_horizon, size.action_dim, generator=generator)
    state = torch.randn(2, size.action_dim, generator=generator)
    return network.flow_matching_loss(
        inputs, state, actions, actions.flip(0), torch.tensor([0.2, 0.7])
    ).mean()


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("pi05", [False, True])
def test_counts_of_the_expert_are_those_of_the_module(name: str, pi05: bool) -> None:
    size = replace(SIZES[name], pi05=pi05)
    with torch.device("meta"):
        network = PiNetwork(size)
    freeze_vlm(network)
    assert count(network, trainable=True) == count_of(expert_shapes(size))


@pytest.mark.parametrize(
    ("key", "value"),
    [("patch_size", 16), ("kv_heads", 3), ("head_dim", 15), ("expert_width", 63)],
)
def test_shapes_that_cannot_be_are_refused(
    key: str, value: int, refused: Callable[..., Any]
) -> None:
    with refused(ConfigError, key):
        replace(SIZES["tiny"], **{key: value})


def test_frozen_vlm_gets_no_gradient() -> None:
    network = PiNetwork(TINY)
    freeze_vlm(network)
    loss(network).backward()
    assert all(p.grad is None for p in network.vlm.parameters())
    assert network.expert.layers[0].self_attn.q_proj.weight.grad is not None
    assert network.state_proj.weight.grad is not None


@pytest.mark.parametrize("size", [TINY, SIGLIP], ids=["conv", "siglip"])
def test_lora(size: NetworkSize) -> None:
    torch.manual_seed(0)
    network = PiNetwork(size)
    before = loss(network).item()
    add_lora(network, rank=4)
    assert loss(network).item() == pytest.approx(before, abs=1e-6)  # adapters start as nothing
    trainable = {name for name, p in network.named_parameters() if p.requires_grad}
    inside = {name for name in trainable if "paligemma." in name}
    assert inside and all(".lora_" in name for name in inside)
    expected = adapter_count(size, 4) + count_of(expert_shapes(size))
    assert count(network, trainable=True) == expected
    loss(network).backward()
    adapter = network.language_model.layers[0].self_attn.q_proj.lora_B["default"].weight
    assert adapter.grad is not None and adapter.grad.abs().max() > 0


@pytest.mark.parametrize("size", [TINY, replace(SIGLIP, pi05=True)], ids=["conv", "siglip"])
def test_checkpointing_changes_no_gradient(size: NetworkSize) -> None:
    torch.manual_seed(0)
    network = PiNetwork(size)
    # the VLM's last layer answers no one here, so some weights have no gradient
    plain = torch.autograd.grad(loss(network), list(network.parameters()), allow_unused=True)
    network.set_checkpointing(True)
    again = torch.autograd.grad(loss(network), list(network.parameters()), allow_unused=True)
    assert sum(gradient is not None for gradient in plain) > 20
    for a, b in zip(plain, again, strict=True):
        assert (a is None) == (b is None)
        if a is not None and b is not None:
            torch.testing.assert_close(a, b)


def test_precision() -> None:
    network = PiNetwork(replace(SIGLIP, pi05=True))
    set_precision(network, "bf16")
    kept = {name for name, p in network.named_parameters() if p.dtype == torch.float32}
    cast = {name for name, p in network.named_parameters() if p.dtype == torch.bfloat16}
    vlm, expert = (
        "paligemma_with_expert.paligemma.model",
        "paligemma_with_expert.gemma_expert.model",
    )
    tower = f"{vlm}.vision_tower.vision_model"
    assert {
        "action_in_proj.weight",
        "time_mlp_in.bias",
        f"{tower}.embeddings.patch_embedding.weight",
        f"{tower}.embeddings.position_embedding.weight",
        f"{vlm}.language_model.norm.weight",
        f"{vlm}.language_model.layers.0.input_layernorm.weight",
        f"{expert}.layers.1.post_attention_layernorm.dense.weight",
        f"{expert}.norm.dense.bias",
    } <= kept
    assert {
        f"{tower}.post_layernorm.weight",
        f"{tower}.encoder.layers.0.layer_norm1.weight",
        f"{tower}.encoder.layers.0.mlp.fc1.weight",
        f"{vlm}.multi_modal_projector.linear.weight",
        f"{vlm}.language_model.embed_tokens.weight",
        f"{expert}.layers.0.mlp.up_proj.weight",
    } <= cast
    assert torch.isfinite(loss(network))
    set_precision(network, "fp32")
    assert {p.dtype for p in network.parameters()} == {torch.float32}
