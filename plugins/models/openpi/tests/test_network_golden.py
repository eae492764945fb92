"""π0 and its RL against the reference implementations' numbers (see golden/README.md)."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from originals import euler
from rlcore_flow import denoising
from rlcore_flow.actor import FlowActor, RolloutNoise
from rlcore_flow.denoising import FlowConfig
from rlcore_flow.heads import CriticConfig
from rlcore_model_openpi.checkpoint import load_network
from rlcore_model_openpi.network.pi0 import PiNetwork, PrefixCache, PrefixInputs
from rlcore_model_openpi.sizes import SIZES
from safetensors.torch import load_file
from torch import Tensor

GOLDEN = Path(__file__).parent / "golden"
TOLERANCE = 1e-4
CAMERAS = ("base_0_rgb", "left_wrist_0_rgb", "right_wrist_0_rgb")
STEPS, CHUNK, ENTRIES = 4, 5, 4  # K, executed actions, entries of an env action


def read(name: str) -> dict[str, Tensor]:
    return load_file(GOLDEN / f"{name}.safetensors")


def assert_near(ours: Tensor, golden: Tensor) -> None:
    torch.testing.assert_close(ours, golden, rtol=0, atol=TOLERANCE)


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> PiNetwork:
    folder = tmp_path_factory.mktemp("openpi")
    (folder / "model.safetensors").symlink_to(GOLDEN / "pi0_tiny.safetensors")
    network = PiNetwork(SIZES["tiny_siglip"])
    load_network(network, folder)
    return network


@pytest.fixture(scope="module")
def batch() -> dict[str, Tensor]:
    return read("pi0_batch")


@pytest.fixture(scope="module")
def inputs(batch: dict[str, Tensor]) -> PrefixInputs:
    return PrefixInputs(
        images=torch.stack([batch[f"image.{camera}"] for camera in CAMERAS], dim=1),
        image_masks=torch.stack([batch[f"image_mask.{camera}"] for camera in CAMERAS], dim=1),
        tokens=batch["tokenized_prompt"],
        token_mask=batch["tokenized_prompt_mask"],
    )


def test_embeddings(network: PiNetwork, batch: dict[str, Tensor], inputs: PrefixInputs) -> None:
    golden = read("pi0_outputs")
    embeddings, mask = network.embed_prefix(inputs)
    assert_near(embeddings, golden["prefix_embs"])
    assert torch.equal(mask, golden["prefix_pad_masks"])
    suffix, condition = network.embed_suffix(batch["state"], batch["actions"], batch["time"])
    assert_near(suffix, golden["suffix_embs"])
    assert condition is None


def test_loss_and_gradients(
    network: PiNetwork, batch: dict[str, Tensor], inputs: PrefixInputs
) -> None:
    golden = read("pi0_outputs")
    loss = network.flow_matching_loss(
        inputs, batch["state"], batch["actions"], batch["noise"], batch["time"]
    )
    assert_near(loss, golden["loss_elementwise"])
    names = [key.removeprefix("grad.") for key in golden if key.startswith("grad.")]
    assert len(names) == 3
    parameters = dict(network.named_parameters())
    gradients = torch.autograd.grad(loss.mean(), [parameters[name] for name in names])
    for name, gradient in zip(names, gradients, strict=True):
        # the gradients themselves are about 1e-3: hold them relatively too
        expected = golden[f"grad.{name}"]
        torch.testing.assert_close(gradient, expected, rtol=1e-3, atol=1e-6)


def test_sample(network: PiNetwork, batch: dict[str, Tensor], inputs: PrefixInputs) -> None:
    actions = euler(network, inputs, batch["state"], batch["noise"], num_steps=10)
    assert_near(actions, read("pi0_outputs")["sample_actions_10steps"])


RL = {
    "pi0_flow_sde": FlowConfig(num_steps=STEPS, noise_method="flow_sde"),
    "pi0_flow_noise_joint": FlowConfig(
        num_steps=STEPS, noise_method="flow_noise", joint_logprob=True
    ),
}


@pytest.fixture(scope="module", params=RL)
def rl(request: pytest.FixtureRequest, network: PiNetwork) -> tuple[FlowActor, dict[str, Tensor]]:
    """An actor with the reference's heads, and its numbers."""
    golden = read(request.param)
    actor = FlowActor(network, RL[request.param], CriticConfig())
    critic = read("pi0_flow_sde")
    assert actor.value_head is not None
    names = actor.value_head.state_dict().keys()
    actor.value_head.load_state_dict({name: critic[f"w.value_head.{name}"] for name in names})
    if actor.noise_head is not None:
        # the reference numbers linear layers, ours counts activations between them too
        stored = "w.noise_head.mlp_logvar.moduleList.{}.linear_1.{}"
        state = {
            f"mlp.{2 * layer}.{part}": golden[stored.format(layer, part)]
            for layer in range(3)
            for part in ("weight", "bias")
        }
        actor.noise_head.load_state_dict(state)
        assert actor.noise_head.low == pytest.approx(golden["w.noise_head.logvar_min"].item())
        assert actor.noise_head.high == pytest.approx(golden["w.noise_head.logvar_max"].item())
    return actor, golden


def executed(values: Tensor) -> Tensor:
    return values[:, :CHUNK, :ENTRIES]


def take_step(
    actor: FlowActor, cache: PrefixCache, state: Tensor, x: Tensor, step: denoising.DenoisingStep
) -> tuple[Tensor, Tensor, Tensor]:
    """Velocity at x, and mean and std of the next point."""
    features = actor.network.suffix_features(cache, state, x, step.begin)
    velocity = actor.network.velocity(features)
    learned_std = None if actor.noise_head is None else actor.noise_head(features)
    return velocity, *denoising.step_distribution(x, velocity, step, learned_std)


def test_step_distributions(
    rl: tuple[FlowActor, dict[str, Tensor]], batch: dict[str, Tensor], inputs: PrefixInputs
) -> None:
    actor, golden = rl
    cache = actor.network.encode_prefix(inputs, batch["state"])
    x = batch["noise"]
    with torch.no_grad():
        steps = denoising.denoising_steps(
            torch.arange(STEPS)[:, None].expand(-1, 2),
            config=actor.flow,
            stochastic=torch.tensor([True, True]),
            noise_level=0.5,
        )
        for number, step in enumerate(steps):
            velocity, mean, std = take_step(actor, cache, batch["state"], x, step)
            assert_near(velocity, golden["step_v"][number])
            assert_near(mean, golden["step_mean"][number])
            assert_near(std, golden["step_std"][number])


@pytest.mark.parametrize("chain", ["", "_shifted"])
def test_recompute(
    rl: tuple[FlowActor, dict[str, Tensor]],
    batch: dict[str, Tensor],
    inputs: PrefixInputs,
    chain: str,
) -> None:
    actor, golden = rl
    with torch.no_grad():
        score = actor.recompute(
            inputs,
            batch["state"],
            golden[f"chains{chain}"],
            golden["denoise_inds"][:, 0],
            noise_level=0.5,
        )
    assert_near(executed(score.logprobs), golden[f"logprobs{chain}"])
    if not chain:  # stored for the chain itself only
        assert_near(score.values[:, 0], golden["values"])
        assert_near(executed(score.entropy).mean(dim=(1, 2))[:, None], golden["entropy"])
        assert_near(executed(score.logprobs), golden["prev_logprobs"])


def test_rollout_follows_the_chain(
    rl: tuple[FlowActor, dict[str, Tensor]], batch: dict[str, Tensor], inputs: PrefixInputs
) -> None:
    """With the noise that made the reference's chain, ours is that chain."""
    actor, golden = rl
    chain, index = golden["chains"], golden["denoise_inds"][:, 0]
    noise = RolloutNoise(chain[:, 0], torch.zeros_like(chain[:, 1:]), index)
    with torch.no_grad():
        # the noise that a step needs to end where the reference's did: (x_next - mean) / std
        numbers = torch.arange(STEPS)[:, None].expand(-1, len(index))
        steps = denoising.denoising_steps(
            numbers,
            config=actor.flow,
            stochastic=(index == numbers) | torch.tensor(actor.flow.joint_logprob),
            noise_level=0.5,
        )
        cache = actor.network.encode_prefix(inputs, batch["state"])
        for number, step in enumerate(steps):
            plain = actor.rollout(inputs, batch["state"], noise, noise_level=0.5)
            gap = chain[:, number + 1] - plain.chain[:, number + 1]
            _, _, std = take_step(actor, cache, batch["state"], plain.chain[:, number], step)
            noise.step[:, number] = torch.where(std > 0, gap / std, 0.0)
        sample = actor.rollout(inputs, batch["state"], noise, noise_level=0.5)
    assert_near(sample.chain, chain)
    assert_near(executed(sample.logprobs), golden["prev_logprobs"])
    assert_near(sample.values[:, 0], golden["values"])


def test_deterministic(
    rl: tuple[FlowActor, dict[str, Tensor]], batch: dict[str, Tensor], inputs: PrefixInputs
) -> None:
    actor, golden = rl
    chain = golden["chains"]
    # step noise that would show if it were used
    noise = RolloutNoise(chain[:, 0], torch.ones_like(chain[:, 1:]), torch.tensor([0, 1]))
    with torch.no_grad():
        sample = actor.rollout(inputs, batch["state"], noise, noise_level=0.5, deterministic=True)
    assert_near(sample.actions, golden["eval_actions"])
    assert torch.count_nonzero(sample.logprobs) == 0
