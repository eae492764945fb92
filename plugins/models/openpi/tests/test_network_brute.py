"""The network against a slow, literal second writing of π0 and π0.5.

The second writing runs cameras, prompt and actions as one sequence (no cache), builds the masks
entry by entry, adds openpi's -2.3819763e38 to forbidden scores, writes out norms and rotations,
and reads weights by openpi's names. Only the image tokens are taken from the network.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from originals import euler
from rlcore_flow.actor import FlowActor
from rlcore_flow.denoising import FlowConfig
from rlcore_flow.heads import CriticConfig
from rlcore_model_openpi.network.pi0 import PiNetwork, PrefixInputs
from rlcore_model_openpi.sizes import SIZES, NetworkSize
from torch import Tensor

FORBIDDEN = -2.3819763e38
VLM = "paligemma_with_expert.paligemma.model.language_model"
EXPERT = "paligemma_with_expert.gemma_expert.model"

MQA = replace(
    SIZES["tiny"],
    heads=4,
    kv_heads=1,
    expert_width=48,
    expert_mlp=80,
    max_token_len=6,
    action_horizon=3,
    image_size=16,
)


def networks() -> list[NetworkSize]:
    return [MQA, replace(MQA, kv_heads=2, pi05=True)]


@pytest.fixture(params=networks(), ids=["pi0", "pi05"])
def network(request: pytest.FixtureRequest) -> PiNetwork:
    torch.manual_seed(0)
    network = PiNetwork(request.param)
    with torch.no_grad():  # weights that start at 0 would hide mistakes
        for parameter in network.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return network


@pytest.fixture
def inputs() -> PrefixInputs:
    """Two rows: the first has no second camera and 2 prompt tokens, the second 5."""
    generator = torch.Generator().manual_seed(1)
    return PrefixInputs(
        images=torch.rand(2, 2, 3, 16, 16, generator=generator) * 2 - 1,
        image_masks=torch.tensor([[True, False], [True, True]]),
        tokens=torch.randint(0, 512, (2, 6), generator=generator),
        token_mask=torch.arange(6) < torch.tensor([[2], [5]]),
    )


@pytest.fixture
def suffix(network: PiNetwork) -> tuple[Tensor, Tensor, Tensor]:
    """State, noisy actions, time."""
    torch.manual_seed(2)
    entries = network.size.action_dim
    return torch.randn(2, entries), torch.randn(2, 3, entries), torch.tensor([0.3, 0.95])


class Literal:
    """π0 / π0.5 in the plainest words, one row at a time."""

    def __init__(self, network: PiNetwork) -> None:
        self.size = network.size
        self.weights = {name: value.detach() for name, value in network.named_parameters()}

    def linear(self, name: str, x: Tensor) -> Tensor:
        y = x @ self.weights[f"{name}.weight"].T
        bias = self.weights.get(f"{name}.bias")
        return y if bias is None else y + bias

    def norm(self, name: str, x: Tensor, condition: Tensor | None) -> tuple[Tensor, Tensor]:
        y = x / torch.sqrt((x * x).mean(dim=-1, keepdim=True) + 1e-6)
        if condition is None:
            return y * (1 + self.weights[f"{name}.weight"]), torch.ones(())
        modulation = self.linear(f"{name}.dense", condition)
        width = x.shape[-1]
        scale, shift, gate = modulation[:width], modulation[width : 2 * width], modulation[-width:]
        return y * (1 + scale) + shift, gate

    def rotate(self, x: Tensor, position: int) -> Tensor:
        """Pairs (i, i + d/2) turned by position / 10000^(2i/d)."""
        half = self.size.head_dim // 2
        y = x.clone()
        for i in range(half):
            angle = position / 10_000 ** (2 * i / self.size.head_dim)
            a, b = x[..., i], x[..., i + half]
            y[..., i] = a * math.cos(angle) - b * math.sin(angle)
            y[..., i + half] = b * math.cos(angle) + a * math.sin(angle)
        return y

    def run(
        self, parts: list[tuple[str, Tensor, Tensor | None]], positions: list[int], mask: Tensor
    ) -> list[Tensor]:
        """Layers over one sequence of parts (tower name, tokens [Q, W], condition)."""
        size = self.size
        for layer in range(size.depth):
            heads: dict[str, list[Tensor]] = {"q": [], "k": [], "v": []}
            gates = []
            for tower, x, condition in parts:
                block = f"{tower}.layers.{layer}"
                normed, gate = self.norm(f"{block}.input_layernorm", x, condition)
                gates.append(gate)
                for kind, found in heads.items():
                    y = self.linear(f"{block}.self_attn.{kind}_proj", normed)
                    found.append(y.reshape(len(x), -1, size.head_dim))
            q, k, v = (torch.cat(found) for found in heads.values())
            q = torch.stack([self.rotate(q[i], p) for i, p in enumerate(positions)])
            k = torch.stack([self.rotate(k[i], p) for i, p in enumerate(positions)])
            attended = torch.zeros(len(positions), size.heads, size.head_dim)
            for head in range(size.heads):
                own = head // (size.heads // size.kv_heads)
                scores = q[:, head] @ k[:, own].T / math.sqrt(size.head_dim)
                scores = scores + torch.where(mask, 0.0, FORBIDDEN)
                attended[:, head] = torch.softmax(scores, dim=-1) @ v[:, own]
            parts = self._rest(layer, parts, gates, attended.flatten(1))
        return [self.norm(f"{tower}.norm", x, condition)[0] for tower, x, condition in parts]

    def _rest(
        self,
        layer: int,
        parts: list[tuple[str, Tensor, Tensor | None]],
        gates: list[Tensor],
        attended: Tensor,
    ) -> list[tuple[str, Tensor, Tensor | None]]:
        done, result = 0, []
        for (tower, x, condition), gate in zip(parts, gates, strict=True):
            block = f"{tower}.layers.{layer}"
            y = self.linear(f"{block}.self_attn.o_proj", attended[done : done + len(x)])
            done += len(x)
            x = x + y * gate
            normed, gate = self.norm(f"{block}.post_attention_layernorm", x, condition)
            gated = torch.nn.functional.gelu(
                self.linear(f"{block}.mlp.gate_proj", normed), approximate="tanh"
            )
            y = self.linear(
                f"{block}.mlp.down_proj", gated * self.linear(f"{block}.mlp.up_proj", normed)
            )
            result.append((tower, x + y * gate, condition))
        return result

    def time(self, t: float) -> Tensor:
        half = self.size.expert_width // 2
        periods = [4e-3 * 1000 ** (i / (half - 1)) for i in range(half)]
        phases = [2 * math.pi * t / period for period in periods]
        return torch.tensor([math.sin(p) for p in phases] + [math.cos(p) for p in phases])

    def suffix(self, state: Tensor, noisy: Tensor, t: float) -> tuple[Tensor, Tensor | None]:
        silu = torch.nn.functional.silu
        actions, moment = self.linear("action_in_proj", noisy), self.time(t)
        if self.size.pi05:
            inner = silu(self.linear("time_mlp_in", moment))
            return actions, silu(self.linear("time_mlp_out", inner))
        tokens = [self.linear("state_proj", state)]
        for action in actions:
            inner = silu(self.linear("action_time_mlp_in", torch.cat([action, moment])))
            tokens.append(self.linear("action_time_mlp_out", inner))
        return torch.stack(tokens), None

    def prefix_output(self, tokens: Tensor, exists: list[bool]) -> Tensor:
        """The VLM alone `[P, W]`."""
        mask = torch.tensor([[a and b for b in exists] for a in exists])
        return self.run([(VLM, tokens, None)], positions(exists), mask)[0]

    def velocity(
        self, tokens: Tensor, exists: list[bool], state: Tensor, noisy: Tensor, t: float
    ) -> Tensor:
        """All in one sequence; the prefix sees no suffix, the state of π0 sees no action."""
        own, condition = self.suffix(state, noisy, t)
        blocks = [0] * len(exists)
        blocks += [1] * len(own) if self.size.pi05 else [1] + [2] * (len(own) - 1)
        present = [*exists, *[True] * len(own)]
        mask = torch.tensor(
            [
                [blocks[b] <= blocks[a] and present[a] and present[b] for b in range(len(blocks))]
                for a in range(len(blocks))
            ]
        )
        parts = [(VLM, tokens, None), (EXPERT, own, condition)]
        output = self.run(parts, positions(present), mask)[1]
        return self.linear("action_out_proj", output[-self.size.action_horizon :])


def positions(exists: list[bool]) -> list[int]:
    """Number of tokens up to and with each one, less 1."""
    return [sum(exists[: i + 1]) - 1 for i in range(len(exists))]


def prefix_of(network: PiNetwork, inputs: PrefixInputs, row: int) -> tuple[Tensor, list[bool]]:
    """A row's prefix tokens: image tokens from the network, prompt embedded here."""
    with torch.no_grad():
        tokens, _ = network.embed_prefix(inputs)
    table = network.language_model.embed_tokens.weight.detach()
    prompt = torch.stack([table[t] * math.sqrt(network.size.vlm_width) for t in inputs.tokens[row]])
    per_camera = network.size.image_tokens
    images = tokens[row, : 2 * per_camera]
    exists = [bool(mask) for mask in inputs.image_masks[row] for _ in range(per_camera)]
    exists += [bool(mask) for mask in inputs.token_mask[row]]
    return torch.cat([images, prompt]), exists


@torch.no_grad()
def test_velocity(
    network: PiNetwork, inputs: PrefixInputs, suffix: tuple[Tensor, Tensor, Tensor]
) -> None:
    state, noisy, time = suffix
    cache = network.encode_prefix(inputs, state)
    ours = network.velocity(network.suffix_features(cache, state, noisy, time))
    literal = Literal(network)
    for row in range(2):
        tokens, exists = prefix_of(network, inputs, row)
        theirs = literal.velocity(tokens, exists, state[row], noisy[row], time[row].item())
        torch.testing.assert_close(ours[row], theirs, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_prefix_output_with_its_padding(network: PiNetwork, inputs: PrefixInputs) -> None:
    """Padding rows too: a critic after the VLM averages over them."""
    state = torch.zeros(2, network.size.action_dim)
    ours = network.encode_prefix(inputs, state, need_output=True).output
    assert ours is not None
    literal = Literal(network)
    for row in range(2):
        theirs = literal.prefix_output(*prefix_of(network, inputs, row))
        torch.testing.assert_close(ours[row], theirs, rtol=1e-4, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("mode", ["mean_token", "last_token", "first_token"])
def test_value_after_vlm(
    network: PiNetwork, inputs: PrefixInputs, suffix: tuple[Tensor, Tensor, Tensor], mode: str
) -> None:
    critic = CriticConfig(after_vlm=True, vlm_mode=mode, num_images=1, hidden=(16, 8))
    actor = FlowActor(network, FlowConfig(num_steps=2), critic)
    state, noisy, _ = suffix
    chain = torch.stack([noisy, noisy, noisy], dim=1)
    values = actor.recompute(inputs, state, chain, torch.tensor([0, 1]), noise_level=0.5).values
    literal = Literal(network)
    for row in range(2):
        output = literal.prefix_output(*prefix_of(network, inputs, row))
        # 16 px / 8 = 2 x 2 = 4 tokens a camera: tokens 0-3 and 4-7, then 6 of the prompt
        assert len(output) == 14
        chosen = {
            "mean_token": [0, 1, 2, 3, 8, 9, 10, 11, 12, 13],
            "last_token": [13],
            "first_token": [0],
        }[mode]
        assert actor.value_head is not None
        expected = actor.value_head(output[chosen].mean(dim=0)[None])[0]
        torch.testing.assert_close(values[row], expected, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_unused_parts_of_the_prefix_do_not_matter(
    network: PiNetwork, inputs: PrefixInputs, suffix: tuple[Tensor, Tensor, Tensor]
) -> None:
    state, noisy, time = suffix

    def velocity(prefix: PrefixInputs) -> Tensor:
        cache = network.encode_prefix(prefix, state)
        return network.velocity(network.suffix_features(cache, state, noisy, time))

    other = replace(inputs, images=inputs.images.clone(), tokens=inputs.tokens.clone())
    other.images[0, 1] = 0.7  # the camera that row 0 does not have
    other.tokens[0, 2:] = 3  # padding
    torch.testing.assert_close(velocity(other), velocity(inputs))
    other.images[1, 1] = 0.7  # but row 1 has it
    assert not torch.allclose(velocity(other)[1], velocity(inputs)[1])


@torch.no_grad()
def test_euler_steps(
    network: PiNetwork, inputs: PrefixInputs, suffix: tuple[Tensor, Tensor, Tensor]
) -> None:
    """x <- x - v / K at t = 1, 2/3, 1/3."""
    state, noise, _ = suffix
    cache, x = network.encode_prefix(inputs, state), noise
    for t in (1.0, 2 / 3, 1 / 3):
        features = network.suffix_features(cache, state, x, torch.full((2,), t))
        x = x - network.velocity(features) / 3
    torch.testing.assert_close(euler(network, inputs, state, noise, num_steps=3), x)


@torch.no_grad()
def test_flow_matching_loss(
    network: PiNetwork, inputs: PrefixInputs, suffix: tuple[Tensor, Tensor, Tensor]
) -> None:
    """At t, between noise and actions, against the difference of the two."""
    state, noise, time = suffix
    actions = noise.flip(0) + 1
    loss = network.flow_matching_loss(inputs, state, actions, noise, time)
    t = time[0]
    literal = Literal(network)
    v = literal.velocity(
        *prefix_of(network, inputs, 0), state[0], t * noise[0] + (1 - t) * actions[0], t.item()
    )
    torch.testing.assert_close(loss[0], (v - (noise[0] - actions[0])) ** 2, rtol=1e-3, atol=1e-4)


def test_pi05_starts_with_closed_gates() -> None:
    """Adaptive norms start at zero, so the expert starts as the identity around its layers."""
    network = PiNetwork(replace(MQA, pi05=True))
    for name, parameter in network.named_parameters():
        if ".dense." in name:
            assert torch.count_nonzero(parameter) == 0, name
    # 2 norms in each of 2 layers, and the last one
    assert sum(name.endswith("dense.weight") for name, _ in network.named_parameters()) == 5
