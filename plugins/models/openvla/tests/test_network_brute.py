"""OpenVLA's decoding, written down again step by step.

One row at a time and without padding; for each token the whole sequence so far goes through every
layer of the Llama anew, in plain arithmetic (fp64) on the state dict. No cache, no mask, no batch.
What the towers make of an image is taken as given: OpenVLA-OFT's tests write that down.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from rlcore_model_openvla.network import AutoregressiveActor
from rlcore_prismatic.network.actor import ActorInputs, Writing
from rlcore_prismatic.network.heads import ValueHead
from rlcore_prismatic.network.model import PrismaticModel
from rlcore_prismatic.sizes import DINOV2, PrismaticSize, TowerSize
from torch import Tensor

SLOTS, PADDED = 4, 9
SIZE = PrismaticSize(
    towers=(TowerSize(width=8, depth=2, heads=2, mlp=12, mean=DINOV2.mean, std=DINOV2.std),),
    image_size=28,
    patch_size=14,
    width=16,
    mlp=20,
    depth=2,
    heads=4,
    kv_heads=2,
    vocab=300,
    padding_rows=8,
)
HEAD = SIZE.width // SIZE.heads
ELAPSED = (0.25, 0.5, 1.0)
PROMPTS = ([9, 30, 5, 7], [9, 30, 6, 8, 11, 12, 3, 7], [40, 7])
Weights = dict[str, Tensor]


@pytest.fixture(scope="module")
def actor() -> AutoregressiveActor:
    torch.manual_seed(0)
    head = ValueHead(SIZE.width, [6], outputs=2, elapsed=True)
    actor = AutoregressiveActor(
        PrismaticModel(SIZE), head, Writing(SLOTS, temperature=1.3, top_k=0)
    )
    with torch.no_grad():
        for parameter in actor.parameters():
            parameter += 0.2 * torch.randn(parameter.shape)
    return actor


@pytest.fixture(scope="module")
def inputs() -> ActorInputs:
    tokens = torch.full((len(PROMPTS), PADDED), SIZE.pad)
    mask = torch.zeros(len(PROMPTS), PADDED, dtype=torch.bool)
    for row, prompt in enumerate(PROMPTS):
        tokens[row, 0], mask[row, 0] = 1, True
        tokens[row, -len(prompt) :], mask[row, -len(prompt) :] = torch.tensor(prompt), True
    torch.manual_seed(1)
    images = torch.randint(0, 256, (len(PROMPTS), 1, 28, 28, 3), dtype=torch.uint8)
    return ActorInputs(images, tokens, mask, torch.zeros(3, 0), torch.tensor(ELAPSED))


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * weight


def rotated(x: Tensor) -> Tensor:
    """Rotary embedding of `[T, d]`: entries i and i + d/2 turn by position * 10000^(-2i/d)."""
    half = x.shape[1] // 2
    result = torch.empty_like(x)
    for position in range(len(x)):
        for i in range(half):
            angle = position * 10000 ** (-2 * i / x.shape[1])
            a, b = x[position, i], x[position, i + half]
            result[position, i] = a * math.cos(angle) - b * math.sin(angle)
            result[position, i + half] = b * math.cos(angle) + a * math.sin(angle)
    return result


def attended(x: Tensor, w: Weights, name: str) -> Tensor:
    """Causal self-attention of `[T, D]`; two heads of queries share one of keys and values."""
    q, k, v = (x @ w[f"{name}.{p}_proj.weight"].T for p in "qkv")
    outputs = []
    for head in range(SIZE.heads):
        shared = head * SIZE.kv_heads // SIZE.heads
        queries = rotated(q[:, head * HEAD : (head + 1) * HEAD])
        keys = rotated(k[:, shared * HEAD : (shared + 1) * HEAD])
        values = v[:, shared * HEAD : (shared + 1) * HEAD]
        rows = []
        for t in range(len(x)):
            weights = (keys[: t + 1] @ queries[t] / math.sqrt(HEAD)).exp()
            rows.append(weights / weights.sum() @ values[: t + 1])
        outputs.append(torch.stack(rows))
    return torch.cat(outputs, dim=1) @ w[f"{name}.o_proj.weight"].T


def llama(x: Tensor, w: Weights) -> Tensor:
    """`[T, D]` -> outputs after the final norm."""
    for number in range(SIZE.depth):
        layer = f"language_model.model.layers.{number}"
        x = x + attended(rms_norm(x, w[f"{layer}.input_layernorm.weight"]), w, f"{layer}.self_attn")
        y = rms_norm(x, w[f"{layer}.post_attention_layernorm.weight"])
        gate = y @ w[f"{layer}.mlp.gate_proj.weight"].T
        up = y @ w[f"{layer}.mlp.up_proj.weight"].T
        x = x + (gate / (1 + (-gate).exp()) * up) @ w[f"{layer}.mlp.down_proj.weight"].T
    return rms_norm(x, w["language_model.model.norm.weight"])


def critic(hidden: Tensor, elapsed: float, w: Weights) -> Tensor:
    x = torch.cat([hidden, hidden.new_tensor([2 * elapsed - 1])])
    x = x @ w["mlp.0.weight"].T + w["mlp.0.bias"]
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2))) @ w["mlp.2.weight"].T


def decided(
    actor: AutoregressiveActor, inputs: ActorInputs, row: int, uniform: Tensor | None, top_k: int
) -> tuple[list[int], list[float], list[float], Tensor]:
    """Token indices, log-probs and entropies of one row, and its values."""
    w = {name: tensor.double() for name, tensor in actor.network.state_dict().items()}
    table = w["language_model.model.embed_tokens.weight"]
    pixels = actor.network.normalized(inputs.images)
    patches = actor.network.image_tokens(pixels)[row].detach().double()
    sequence = torch.cat([table[1][None], patches, table[PROMPTS[row]]])
    indices, logprobs, entropies = [], [], []
    values = None
    for number in range(SLOTS):
        last = llama(sequence, w)[-1]
        if values is None:
            head = {n: t.double() for n, t in actor.value_head.state_dict().items()}
            values = critic(last, ELAPSED[row], head)
        logits = (last @ w["language_model.lm_head.weight"].T)[300 - 256 : 300] / 1.3
        if top_k:
            least = sorted(logits.tolist())[-top_k]
            logits = torch.tensor([x if x >= least else -math.inf for x in logits.tolist()])
        p = (logits.exp() / logits.exp().sum()).tolist()
        if uniform is None:
            index = p.index(max(p))
        else:
            total, index = 0.0, -1
            while total <= uniform[row, number]:
                index += 1
                total += p[index]
        indices.append(index)
        logprobs.append(math.log(p[index]))
        entropies.append(-sum(x * math.log(x) for x in p if x))
        sequence = torch.cat([sequence, table[300 - 256 + index][None]])
    return indices, logprobs, entropies, values


@pytest.mark.parametrize("sampled", [True, False], ids=["sampled", "greedy"])
@pytest.mark.parametrize("top_k", [0, 20])
def test_decisions_are_those_of_the_literal_form(actor, inputs, sampled, top_k):
    actor.writing = replace(actor.writing, top_k=top_k)
    torch.manual_seed(2)
    uniform = torch.rand(len(PROMPTS), SLOTS) if sampled else None
    with torch.no_grad():
        decision, score = actor.decide(inputs, uniform)
        again = actor.score(inputs, decision)
    indices = decision.indices
    for row in range(len(PROMPTS)):
        tokens, logprobs, entropies, values = decided(actor, inputs, row, uniform, top_k)
        assert indices[row].tolist() == tokens
        for got in (score, again):
            assert got.logprobs[row].tolist() == pytest.approx(logprobs, abs=1e-5)
            assert got.entropy[row].tolist() == pytest.approx(entropies, abs=1e-5)
            torch.testing.assert_close(got.values[row].double(), values, atol=1e-5, rtol=0)
    # or nothing above would tell apart which token was read where
    assert len({tuple(tokens) for tokens in indices.tolist()}) == len(PROMPTS)
    assert len(set(indices.flatten().tolist())) > 4


def test_a_token_depends_on_those_before_it_alone(actor, inputs):
    """Changing token 2 of 0..3 changes the logits of token 3, and no others; nor the values."""
    actor.writing = replace(actor.writing, top_k=0)
    indices = torch.tensor([[3, 100, 7, 250]] * 3)
    changed = indices.clone()
    changed[:, 2] = 200
    with torch.no_grad():
        first, second = actor.read(inputs, indices), actor.read(inputs, changed)
    torch.testing.assert_close(second.logits[:, :3], first.logits[:, :3], atol=1e-6, rtol=0)
    assert (second.logits[:, 3] - first.logits[:, 3]).abs().amax(dim=-1).min() > 1e-3
    torch.testing.assert_close(second.features, first.features, atol=1e-6, rtol=0)
