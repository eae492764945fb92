"""The layout without torch is that of the real network."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from rlcore_flow.head_shapes import head_shapes
from rlcore_flow.heads import NoiseHead
from rlcore_model_openpi.layout import head_keys, network_keys, network_shapes
from rlcore_model_openpi.network.pi0 import PiNetwork
from rlcore_model_openpi.sizes import SIZES
from rlcore_weights.critic import ValueHead
from rlcore_weights.headers import count


@pytest.mark.parametrize("pi05", [False, True])
@pytest.mark.parametrize("name", SIZES)
def test_names_and_shapes_are_the_networks(name, pi05):
    size = replace(SIZES[name], pi05=pi05)
    with torch.device("meta"):
        network = PiNetwork(size)
    real = {key: tuple(value.shape) for key, value in network.named_parameters()}
    shapes = network_shapes(size)
    assert shapes == real
    assert sum(p.numel() for p in network.parameters()) == count(shapes)


def test_heads():
    for head, module, widths in (
        ("value_head", ValueHead(64, [16, 8], outputs=4, elapsed=True), [65, 16, 8, 4]),
        ("noise_head", NoiseHead(64, 8, hidden=(128, 64)), [64, 128, 64, 8]),
    ):
        real = {f"{head}.{key}": tuple(v.shape) for key, v in module.named_parameters()}
        assert head_shapes(head, widths) == real


def test_spellings_of_one_name():
    tower = "paligemma_with_expert.paligemma.model.vision_tower"
    stored = [
        f"{tower}.encoder.layers.0.mlp.fc1.weight",
        "paligemma_with_expert.paligemma.lm_head.weight",
        "paligemma_with_expert.gemma_expert.lm_head.weight",
        "noise_head.mlp_logvar.moduleList.1.linear_1.weight",
        "noise_head.logvar_min",
        "value_head.mlp.0.weight",
    ]
    assert network_keys(stored) == {
        f"{tower}.vision_model.encoder.layers.0.mlp.fc1.weight": stored[0],
        "paligemma_with_expert.paligemma.model.language_model.embed_tokens.weight": stored[1],
    }
    assert head_keys(stored) == {"noise_head.mlp.2.weight": stored[3], stored[5]: stored[5]}
