"""OpenVLA-OFT's original form, written down again step by step.

One row at a time, the sequence put together token by token with its padding behind it, as the
original code does; every layer in plain arithmetic on the state dict. No part of the network runs.
"""

from __future__ import annotations

import math

import pytest
import torch
from rlcore_model_openvla_oft.network import ActionHead, ParallelActor, ProprioProjector
from rlcore_prismatic.network.actor import ActorInputs, Writing
from rlcore_prismatic.network.heads import ValueHead
from rlcore_prismatic.network.model import PrismaticModel
from rlcore_prismatic.sizes import DINOV2, SIGLIP, PrismaticSize, TowerSize
from torch import Tensor

CHUNK, ENTRIES, STATE, PADDED = 2, 3, 4, 12
SLOTS = CHUNK * ENTRIES
MADE = {"width": 8, "depth": 3, "heads": 2, "mlp": 12}
SIZE = PrismaticSize(
    towers=(
        TowerSize(
            **MADE,
            mean=DINOV2.mean,
            std=DINOV2.std,
            class_token=True,
            registers=4,
            layer_scale=True,
        ),
        TowerSize(**MADE, mean=SIGLIP.mean, std=SIGLIP.std, pooling=True),
    ),
    image_size=28,
    patch_size=14,
    width=16,
    mlp=20,
    depth=2,
    heads=2,
    kv_heads=2,
    vocab=300,
    padding_rows=8,
)
Weights = dict[str, Tensor]


def layer_norm(x: Tensor, w: Weights, name: str, eps: float) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    y = centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt()
    return y * w[f"{name}.weight"] + w[f"{name}.bias"]


def linear(x: Tensor, w: Weights, name: str) -> Tensor:
    y = x @ w[f"{name}.weight"].T
    return y + w[f"{name}.bias"] if f"{name}.bias" in w else y


def gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """`[T, d]` each, every query sees every key."""
    scores = q @ k.T / math.sqrt(q.shape[-1])
    weights = (scores - scores.max(-1, keepdim=True).values).exp()
    return weights / weights.sum(-1, keepdim=True) @ v


def tower(image: Tensor, w: Weights, name: str, size: TowerSize, sentence: Tensor | None) -> Tensor:
    """One image `[3, 28, 28]`, normalised -> patch features `[4, 8]`."""
    side = SIZE.patch_size
    patches = []
    for row in range(2):
        for column in range(2):
            patch = image[:, row * side : (row + 1) * side, column * side : (column + 1) * side]
            kernel = w[f"{name}.patch_embed.proj.weight"]
            patches.append((kernel * patch).sum((1, 2, 3)) + w[f"{name}.patch_embed.proj.bias"])
    x = torch.stack(patches) + w[f"{name}.pos_embed"][0]
    if size.class_token:
        x = torch.cat([w[f"{name}.cls_token"][0], w[f"{name}.reg_token"][0], x])
    for number in range(size.depth - 1):  # up to the second-to-last block
        wrapper = f"{name}.blocks.{number}"
        block = f"{wrapper}.block" if sentence is not None else wrapper
        qkv = linear(layer_norm(x, w, f"{block}.norm1", 1e-6), w, f"{block}.attn.qkv")
        q, k, v = qkv.split(size.width, dim=-1)
        d = size.width // size.heads
        heads = [
            attention(*(part[:, h * d : (h + 1) * d] for part in (q, k, v)))
            for h in range(size.heads)
        ]
        y = linear(torch.cat(heads, dim=-1), w, f"{block}.attn.proj")
        x = x + (y * w[f"{block}.ls1.scale_factor"] if size.layer_scale else y)
        if sentence is not None:
            x = x * (1 + linear(sentence, w, f"{wrapper}.scale"))
            x = x + linear(sentence, w, f"{wrapper}.shift")
        hidden = gelu(linear(layer_norm(x, w, f"{block}.norm2", 1e-6), w, f"{block}.mlp.fc1"))
        y = linear(hidden, w, f"{block}.mlp.fc2")
        x = x + (y * w[f"{block}.ls2.scale_factor"] if size.layer_scale else y)
    return x[5:] if size.class_token else x


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * weight


def rotate(x: Tensor, positions: Tensor) -> Tensor:
    """Rotary embedding of one head `[T, d]`: pairs (i, i + d/2)."""
    half = x.shape[-1] // 2
    angles = positions[:, None] * 10_000.0 ** (-torch.arange(half) / half)
    a, b = x[:, :half], x[:, half:]
    return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)


def llama(x: Tensor, exists: Tensor, w: Weights) -> Tensor:
    """`[T, 16]` -> output after the final norm; keys that don't exist are left out."""
    positions = (exists.long().cumsum(0) - 1).masked_fill(~exists, 1).float()
    d = SIZE.width // SIZE.heads
    for number in range(SIZE.depth):
        layer = f"language_model.model.layers.{number}"
        y = rms_norm(x, w[f"{layer}.input_layernorm.weight"])
        q, k, v = (linear(y, w, f"{layer}.self_attn.{n}_proj") for n in "qkv")
        heads = []
        for h in range(SIZE.heads):
            part = slice(h * d, (h + 1) * d)
            keys = rotate(k[:, part], positions)[exists]
            heads.append(attention(rotate(q[:, part], positions), keys, v[:, part][exists]))
        x = x + linear(torch.cat(heads, dim=-1), w, f"{layer}.self_attn.o_proj")
        y = rms_norm(x, w[f"{layer}.post_attention_layernorm.weight"])
        gate = linear(y, w, f"{layer}.mlp.gate_proj")
        y = gate * torch.sigmoid(gate) * linear(y, w, f"{layer}.mlp.up_proj")
        x = x + linear(y, w, f"{layer}.mlp.down_proj")
    return rms_norm(x, w["language_model.model.norm.weight"])


def action_head(hidden: Tensor, w: Weights) -> Tensor:
    """Outputs of the slots `[N, 16]` -> `[C, M]`."""
    name = "action_head.model"
    x = layer_norm(hidden.reshape(CHUNK, -1), w, f"{name}.layer_norm1", 1e-5)
    x = linear(x, w, f"{name}.fc1").clamp(min=0)
    for number in range(2):
        block = f"{name}.mlp_resnet_blocks.{number}.ffn"
        x = x + linear(layer_norm(x, w, f"{block}.0", 1e-5), w, f"{block}.1").clamp(min=0)
    return linear(layer_norm(x, w, f"{name}.layer_norm2", 1e-5), w, f"{name}.fc2")


def by_hand(
    w: Weights,
    ids: list[int],
    images: Tensor,
    state: Tensor | None,
    *,
    film: bool,
    padded: bool,
) -> dict[str, Tensor]:
    """One row.

    Args:
        w: the actor's state dict, the network's names without their prefix.
        ids: prompt without padding, BOS first.
        images: uint8 `[I, 28, 28, 3]`.
        state: `[4]` in [-1, 1].
        padded: FiLM's sentence is the mean over padding too.
    """
    embedding = w["language_model.model.embed_tokens.weight"]
    padding = [SIZE.pad] * (PADDED - len(ids))
    # 2 ends the sequence
    text = embedding[torch.tensor([*ids, 2, *(padding if padded else [])])]
    sentence = text.mean(0) if film else None
    prefix = "vision_backbone.vision_backbone" if film else "vision_backbone"
    middle = []
    for image in images:
        colours = image.permute(2, 0, 1).float() / 255
        features = []
        for name, size in zip(("featurizer", "fused_featurizer"), SIZE.towers, strict=True):
            mean, std = (torch.tensor(values)[:, None, None] for values in (size.mean, size.std))
            features.append(tower((colours - mean) / std, w, f"{prefix}.{name}", size, sentence))
        x = torch.cat(features, dim=-1)
        x = gelu(linear(x, w, "projector.fc1"))
        x = gelu(linear(x, w, "projector.fc2"))
        middle.append(linear(x, w, "projector.fc3"))
    if state is not None:
        hidden = gelu(linear(state, w, "proprio_projector.fc1"))
        middle.append(linear(hidden, w, "proprio_projector.fc2")[None])
    between = torch.cat(middle)
    sequence = torch.cat(
        [
            embedding[ids[:1]],
            between,
            embedding[ids[1:]],
            torch.zeros(SLOTS, SIZE.width),
            embedding[[2]],
            embedding[padding],
        ]
    )
    exists = torch.arange(len(sequence)) < len(sequence) - len(padding)
    output = llama(sequence, exists, w)
    start = len(between) + len(ids) - 1  # the prompt's last token
    hidden = output[start : start + SLOTS]
    logits = linear(hidden, w, "language_model.lm_head")[:, -SIZE.padding_rows - 256 :][:, :256]
    features = output[-SLOTS - 1]
    x = gelu(linear(features, w, "value_head.mlp.0"))
    values = linear(x, w, "value_head.mlp.2")
    return {"logits": logits, "values": values, "actions": action_head(hidden, w)}


@pytest.mark.parametrize("film", [False, True])
@pytest.mark.parametrize("proprio", [False, True])
@pytest.mark.parametrize("images", [1, 2])
def test_it_is_the_original(film: bool, proprio: bool, images: int) -> None:
    torch.manual_seed(film + 2 * proprio + 4 * images)
    actor = ParallelActor(
        PrismaticModel(SIZE, film=film),
        ValueHead(SIZE.width, (8,), outputs=CHUNK),
        Writing(SLOTS, temperature=1.3, top_k=-1),
        official=True,
        proprio_projector=ProprioProjector(SIZE, STATE) if proprio else None,
        action_head=ActionHead(SIZE, ENTRIES),
    )
    with torch.no_grad():
        for parameter in actor.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    # prompts without padding, with fewer pads than slots, as many, and more
    prompts = [[1, *range(3, 2 + length)] for length in (PADDED, 9, PADDED - SLOTS, 4)]
    tokens = torch.full((len(prompts), PADDED), SIZE.pad)
    for row, ids in enumerate(prompts):
        tokens[row, 0], tokens[row, PADDED - len(ids) + 1 :] = 1, torch.tensor(ids[1:])
    pixels = torch.randint(0, 256, (len(prompts), images, 28, 28, 3), dtype=torch.uint8)
    state = torch.rand(len(prompts), STATE) * 2 - 1 if proprio else torch.zeros(len(prompts), 0)
    inputs = ActorInputs(pixels, tokens, tokens != SIZE.pad, state, torch.zeros(len(prompts)))
    weights = {n.removeprefix("network."): p.detach() for n, p in actor.named_parameters()}
    with torch.no_grad():
        logits = actor.read(inputs, torch.zeros(0)).logits
        actions, values = actor.regress(inputs)
    for row, ids in enumerate(prompts):
        given = weights, ids, pixels[row], state[row] if proprio else None
        tokens_of, head_of = (by_hand(*given, film=film, padded=padded) for padded in (True, False))
        expected = {**head_of, "logits": tokens_of["logits"]}
        ours = {"logits": logits[row], "actions": actions[row], "values": values[row]}
        torch.testing.assert_close(ours, expected, rtol=0, atol=2e-5)
        # the two sentences differ, or nothing above would tell them apart
        differ = bool((tokens_of["actions"] - head_of["actions"]).abs().max() > 1e-4)
        assert differ == (film and len(ids) < PADDED)
