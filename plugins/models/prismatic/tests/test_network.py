"""What the golden numbers don't show: causal reading, caches, gradient checkpointing, bf16."""

from __future__ import annotations

import math

import pytest
import torch
from rlcore_prismatic.network.adapt import add_lora, set_precision
from rlcore_prismatic.network.model import PrismaticModel, multimodal
from rlcore_prismatic.network.vision import sincos_positions
from rlcore_prismatic.sizes import SIZES
from torch.utils.flop_counter import FlopCounterMode
from transformers.cache_utils import StaticCache

SIZE = SIZES["tiny"]


@pytest.fixture
def network() -> PrismaticModel:
    torch.manual_seed(0)
    return PrismaticModel(SIZE)


def test_the_sequence_begins_with_bos_then_patches() -> None:
    text, patches = torch.arange(3.0).view(1, 3, 1), torch.tensor([[[7.0], [8.0]]])
    mask = torch.tensor([[True, False, True]])
    sequence, exists = multimodal(text, patches, mask)
    assert sequence.flatten().tolist() == [0, 7, 8, 1, 2]
    assert exists.tolist() == [[True, True, True, False, True]]


def test_a_causal_query_does_not_see_later_keys(network: PrismaticModel) -> None:
    x, mask = torch.randn(2, 6, SIZE.width), torch.ones(2, 6, dtype=torch.bool)
    changed = x.clone()
    changed[:, 4:] += 1.0
    with torch.no_grad():
        for causal in (True, False):
            same = network.run(x, mask, causal=causal) == network.run(changed, mask, causal=causal)
            assert bool(same[:, :4].all()) == causal


def test_a_cache_goes_on_where_it_ended(network: PrismaticModel) -> None:
    """With padding behind the first token, step by step or at once."""
    x, mask = torch.randn(2, 7, SIZE.width), torch.ones(2, 7, dtype=torch.bool)
    mask[1, 1:3] = False
    with torch.no_grad():
        whole = network.run(x, mask, causal=True)
        cache = StaticCache(network.language_model.config, max_cache_len=7)
        parts = [network.run(x[:, :5], mask, causal=True, cache=cache)]
        for start in (5, 6):
            new = x[:, start : start + 1]
            parts.append(network.run(new, mask, causal=True, cache=cache, start=start))
    torch.testing.assert_close(torch.cat(parts, dim=1)[mask], whole[mask], rtol=0, atol=1e-5)


def gradients(network: PrismaticModel) -> dict[str, torch.Tensor]:
    network.zero_grad()
    torch.manual_seed(1)
    tokens = network.image_tokens(torch.rand(1, 2, 6, 64, 64))
    mask = torch.ones(1, tokens.shape[1], dtype=torch.bool)
    output = network.run(tokens, mask, causal=False)
    network.action_logits(output).square().mean().backward()
    return {n: p.grad.clone() for n, p in network.named_parameters() if p.grad is not None}


def test_checkpointing_changes_no_gradient(network: PrismaticModel, monkeypatch) -> None:
    expected = gradients(network)
    blocks = []
    original = type(network.vision_backbone.featurizer.blocks[0]).forward
    monkeypatch.setattr(
        type(network.vision_backbone.featurizer.blocks[0]),
        "forward",
        lambda self, *inputs: blocks.append(1) or original(self, *inputs),
    )
    plain = gradients(network)
    once = len(blocks)
    network.set_checkpointing(True)
    found = gradients(network)
    assert len(blocks) == 3 * once  # once more in each backward pass
    for name in expected:
        torch.testing.assert_close(plain[name], expected[name])
        torch.testing.assert_close(found[name], expected[name], rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("adapted", [False, True])
def test_logits_of_actions_are_those_of_the_whole_vocabulary(
    network: PrismaticModel, adapted: bool
) -> None:
    """The same numbers, and no multiplication for the other tokens."""
    if adapted:
        add_lora(network, 2, 6)
        with torch.no_grad():
            network.language_model.lm_head.lora_B["default"].weight.normal_()
    hidden = torch.randn(2, 3, SIZE.width)
    with torch.no_grad():
        everything = network.language_model.lm_head(hidden)
        with FlopCounterMode(display=False) as counter:
            logits = network.action_logits(hidden)
    expected = everything[..., SIZE.vocab - 256 : SIZE.vocab]
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-6)
    # 6 outputs of 80 entries: 256 products each, and with adapters 2 and 2 * 256 beside
    products = 6 * 80 * 256 + adapted * 6 * (80 * 2 + 2 * 256)
    assert counter.get_total_flops() == 2 * products


def test_bf16_is_near_fp32(network: PrismaticModel) -> None:
    images = torch.randint(0, 256, (2, 1, 64, 64, 3), dtype=torch.uint8)

    def logits() -> torch.Tensor:
        tokens = network.image_tokens(network.normalized(images))
        mask = torch.ones(tokens.shape[:2], dtype=torch.bool)
        return network.action_logits(network.run(tokens, mask, causal=False))

    with torch.no_grad():
        exact = logits()
        set_precision(network, "bf16")
        rounded = logits()
    assert network.dtype == torch.bfloat16 and rounded.dtype == torch.float32
    torch.testing.assert_close(rounded, exact, rtol=0, atol=0.05)


def test_sincos_positions_are_sines_and_cosines_of_the_place() -> None:
    """2 x 2 patches, one frequency: an eighth of a turn per side; two entries are left over."""
    half = math.sqrt(0.5)
    expected = [[0, 1, 0, 1], [half, half, 0, 1], [0, 1, half, half], [half, half, half, half]]
    positions = sincos_positions(4, 6)
    torch.testing.assert_close(positions[:, :4], torch.tensor(expected))
    assert not positions[:, 4:].any()


def test_a_fresh_tower_starts_from_sincos_positions_of_its_amplitude() -> None:
    size = SIZES["tiny_sincos"]
    for number, tower in enumerate(PrismaticModel(size).vision_backbone.towers):
        expected = 2.0 * sincos_positions(64, size.towers[number].width)
        assert (tower.pos_embed[0] - expected).std().item() == pytest.approx(0.02, rel=0.2)
