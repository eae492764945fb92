"""Names, shapes and counts against modules that hold no memory."""

from __future__ import annotations

import pytest
import torch
from rlcore_prismatic.layout import (
    adapter_shapes,
    is_unused,
    network_shapes,
    value_head_shapes,
)
from rlcore_prismatic.network.adapt import add_lora, freeze_unused
from rlcore_prismatic.network.heads import ValueHead
from rlcore_prismatic.network.model import PrismaticModel
from rlcore_prismatic.sizes import SIZES, PrismaticSize
from rlcore_weights.headers import count
from torch import nn


def on_meta(size: PrismaticSize, *, film: bool = False) -> PrismaticModel:
    with torch.device("meta"):
        return PrismaticModel(size, film=film)


def shapes(module: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(parameter.shape) for name, parameter in module.named_parameters()}


@pytest.mark.parametrize("film", [False, True])
@pytest.mark.parametrize("name", SIZES)
def test_the_table_is_the_network(name: str, film: bool) -> None:
    assert shapes(on_meta(SIZES[name], film=film)) == network_shapes(SIZES[name], film=film)


def test_one_tower() -> None:
    """Two layers project its features."""
    size = SIZES["tiny_published"]
    single = PrismaticSize(**{**vars(size), "towers": size.towers[1:]})
    table = network_shapes(single)
    assert shapes(on_meta(single)) == table
    assert table["projector.fc1.weight"] == (64, 64) and "projector.fc3.weight" not in table


def test_the_published_size() -> None:
    """The parts that the reference lists, in billions."""
    network = on_meta(SIZES["openvla_7b"])
    parts = {
        "vision_backbone.featurizer": 0.303,
        "vision_backbone.fused_featurizer": 0.428,
        "projector": 0.071,
        "language_model": 6.739,
    }
    for part, billions in parts.items():
        numbers = sum(p.numel() for p in network.get_submodule(part).parameters())
        assert numbers / 1e9 == pytest.approx(billions, abs=5e-4), part
    assert count(network_shapes(SIZES["openvla_7b"])) / 1e9 == pytest.approx(7.541, abs=5e-4)


def test_adapters() -> None:
    """About 110 million at rank 32; in the small network each where peft puts it."""
    published = adapter_shapes(network_shapes(SIZES["openvla_7b"]), 32)
    assert count(published) / 1e6 == pytest.approx(110.8, abs=0.05)
    for film in (False, True):
        network = PrismaticModel(SIZES["tiny"], film=film)
        add_lora(network, 4, alpha=4)
        adapters = {
            name.replace(".default.", "."): tuple(parameter.shape)
            for name, parameter in network.named_parameters()
            if ".lora_" in name
        }
        assert adapters == adapter_shapes(network_shapes(SIZES["tiny"], film=film), 4)


@pytest.mark.parametrize("film", [False, True])
def test_unused_parameters_have_no_gradient(film: bool) -> None:
    size = SIZES["tiny"]
    network = PrismaticModel(size, film=film)
    text = network.embedding(torch.tensor([[1, 5]]))
    patches = network.image_tokens(torch.rand(1, 1, 6, 64, 64), text.mean(1) if film else None)
    mask = torch.ones(1, patches.shape[1] + 2, dtype=torch.bool)
    output = network.run(torch.cat([text, patches], dim=1), mask, causal=False)
    network.action_logits(output).square().sum().backward()
    silent = {name for name, p in network.named_parameters() if p.grad is None}
    assert silent == {name for name in network_shapes(size, film=film) if is_unused(name, size)}
    freeze_unused(network, size)
    assert silent == {name for name, p in network.named_parameters() if not p.requires_grad}


def test_the_critic() -> None:
    head = ValueHead(9, (512, 128), outputs=8, elapsed=True)
    names = {f"value_head.{name}": shape for name, shape in shapes(head).items()}
    assert names == value_head_shapes(10, (512, 128), 8)
    assert "value_head.mlp.4.bias" not in names
    values = head(torch.randn(3, 9), torch.rand(3))
    assert values.shape == (3, 8) and values.abs().max() < 1
