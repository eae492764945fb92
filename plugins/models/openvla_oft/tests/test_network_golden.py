"""OpenVLA-OFT against the reference implementation's numbers (see golden/README.md)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from rlcore_model_openvla_oft.network import ParallelActor
from rlcore_prismatic import statistics
from rlcore_prismatic.actions import ActionTokenizer
from rlcore_prismatic.layout import network_shapes
from rlcore_prismatic.network.actor import ActorInputs, Decision, Writing
from rlcore_prismatic.network.heads import ValueHead
from rlcore_prismatic.network.model import PrismaticModel
from rlcore_prismatic.sizes import SIZES
from safetensors.torch import load_file
from torch import Tensor

GOLDEN = Path(__file__).parent / "golden"
SIZE = SIZES["tiny_published"]
TOLERANCE = 1e-4
STEPS, ENTRIES = 8, 7  # C, M
STATISTICS = {
    "meta_world": {
        "action": {
            "q01": [-1, -1, -1, -0.5, -0.5, -0.5, 0],
            "q99": [1, 1, 1, 0.5, 0.5, 0.5, 1],
            "mask": [True] * 6 + [False],
        }
    }
}


def read(name: str) -> dict[str, Tensor]:
    return load_file(GOLDEN / f"{name}.safetensors")


def assert_near(ours: Tensor, golden: Tensor) -> None:
    torch.testing.assert_close(ours, golden, rtol=0, atol=TOLERANCE)


@pytest.fixture(scope="module")
def weights() -> dict[str, Tensor]:
    return read("oft_tiny")


@pytest.fixture(scope="module")
def network(weights: dict[str, Tensor]) -> PrismaticModel:
    network = PrismaticModel(SIZE)
    state = {name: weights[name] for name in network_shapes(SIZE) if name in weights}
    missing, unexpected = network.load_state_dict(state, strict=False)
    assert unexpected == []
    assert {name.rpartition(".")[0] for name in missing} == {
        "language_model.model.embed_tokens",
        "language_model.lm_head",
    }
    with torch.no_grad():
        network.embedding.weight[weights["embedded_ids"]] = weights["embedded_rows"]
        rows = network.language_model.lm_head.weight
        rows[SIZE.first_action : SIZE.vocab] = weights["output_rows"]
    network.normalized = lambda images: images  # those of the reference are already
    return network


def inputs(*, padded: bool, rows: int = 2) -> ActorInputs:
    batch = read("oft_batch")
    suffix = "_padded" if padded else ""
    return ActorInputs(
        images=batch["pixel_values_1img"][:rows, None],
        tokens=batch[f"input_ids{suffix}"][:rows],
        token_mask=batch[f"attention_mask{suffix}"][:rows],
        proprio=torch.zeros(rows, 0),
        elapsed=torch.zeros(rows),
    )


def make_actor(
    network: PrismaticModel, *, official: bool = False, head: ValueHead | None = None
) -> ParallelActor:
    return ParallelActor(
        network, head, Writing(STEPS * ENTRIES, temperature=1.6, top_k=-1), official=official
    )


@pytest.fixture(scope="module", params=["chunk_level", "action_level"])
def level(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def actor(network: PrismaticModel, weights: dict[str, Tensor], level: str) -> ParallelActor:
    head = ValueHead(SIZE.width, (512, 128), outputs=1 if level == "chunk_level" else STEPS)
    names = head.state_dict()
    head.load_state_dict({name: weights[f"{level}.value_head.{name}"] for name in names})
    return make_actor(network, head=head)


def test_features(network: PrismaticModel) -> None:
    golden = read("oft_outputs")
    with torch.no_grad():
        features = network.vision_backbone(inputs(padded=True).images)
        assert_near(features, golden["patch_features_1img"])
        assert_near(network.projector(features), golden["projected_1img"])


@pytest.mark.parametrize("mode", ["sample", "greedy"])
def test_scores(actor: ParallelActor, level: str, mode: str) -> None:
    golden = {
        name.rpartition(".")[2]: value
        for name, value in read("oft_outputs").items()
        if name.startswith(f"rlinf.{level}.{mode}.")
    }
    indices = golden["action_tokens"].flatten(1) - SIZE.first_action
    with torch.no_grad():
        score = actor.score(inputs(padded=True), Decision(indices))
        assert_near(score.logprobs, golden["logprobs"])
        assert_near(score.entropy, golden["entropy"])
        assert_near(score.values, golden["values"])
        assert_near(score.values, golden["prev_values"])
        if mode == "greedy":
            decided, again = actor.decide(inputs(padded=True), None)
            assert torch.equal(decided.indices, indices)
            assert_near(again.logprobs, golden["logprobs"])
            actor.temperature = 1.0  # the reference's own, where it acts greedily
            cold = actor.score(inputs(padded=True), Decision(indices))
            assert_near(cold.logprobs, golden["prev_logprobs"])
        else:
            assert_near(score.logprobs, golden["prev_logprobs"])


def test_actions(level: str) -> None:
    golden = read("oft_outputs")
    bounds = statistics.bounds(
        STATISTICS, "meta_world", "action", kind="bounds_q99", size=ENTRIES, epsilon=1e-8, origin=""
    )
    for mode in ("sample", "greedy"):
        tokens = golden[f"rlinf.{level}.{mode}.action_tokens"].numpy()
        actions = bounds.unnormalize(ActionTokenizer(256).decode(tokens - SIZE.first_action))
        expected = golden[f"rlinf.{level}.{mode}.chunk_actions"].numpy()
        np.testing.assert_allclose(actions, expected, atol=1e-12)


def test_the_original_form(network: PrismaticModel) -> None:
    """With its stop token. (Its golden actions are of no use: it takes the likeliest token of the
    whole vocabulary, and with random weights that stands for no action.)"""
    actor = make_actor(network, official=True)
    with torch.no_grad():
        reading = actor.read(inputs(padded=False, rows=1), torch.zeros(1, 0))
    assert_near(reading.hidden, read("oft_outputs")["discrete_hidden_b1"])


def test_padding_does_not_matter(network: PrismaticModel) -> None:
    """More padding between BOS and prompt changes no logit."""
    actor, given = make_actor(network), inputs(padded=True)
    with torch.no_grad():
        expected = actor.read(given, torch.zeros(2, 0)).logits
        pads = torch.full((2, 3), SIZE.pad)
        given.tokens = torch.cat([given.tokens[:, :1], pads, given.tokens[:, 1:]], dim=1)
        there = given.token_mask
        given.token_mask = torch.cat([there[:, :1], pads == 0, there[:, 1:]], dim=1)
        torch.testing.assert_close(
            actor.read(given, torch.zeros(2, 0)).logits, expected, rtol=0, atol=1e-5
        )
