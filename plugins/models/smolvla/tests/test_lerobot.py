"""Parity with LeRobot's own code: golden outputs of it here, and itself where it can be installed.

golden/ holds a folder that LeRobot 0.4.4 saved, a batch, and what LeRobot gave for it (README.md).
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from rlcore_model_smolvla.folder import write_lerobot
from rlcore_model_smolvla.layout import file_name
from rlcore_model_smolvla.network import PrefixInputs, prepare_images
from rlcore_model_smolvla.policy import SmolVLAPolicy, make
from rlcore_model_smolvla.settings import SmolVLAConfig, SmolVLAModelConfig
from rlcore_model_smolvla.sizes import SIZES
from safetensors.torch import load_file
from smolvla_case import ROWS, SIZE, TASKS, write_case
from theirs import lerobot_python, run
from torch import Tensor

from rlcore.contracts.protocols import Observation
from rlcore.contracts.rng import RowKeys
from rlcore.contracts.specs import CameraSpec, EnvSpec

GOLDEN = Path(__file__).parent / "golden"
CLOSE = {"rtol": 0, "atol": 1e-5}


@pytest.fixture(autouse=True)
def published(monkeypatch: pytest.MonkeyPatch) -> None:
    """The size of the tests stands for the published one, the only one that LeRobot builds."""
    monkeypatch.setitem(SIZES, "smolvla", SIZE)


@pytest.fixture
def env(other_env) -> EnvSpec:
    cameras = (CameraSpec("camera0", 48, 64), CameraSpec("other", 48, 64))
    return replace(other_env(), cameras=cameras)


@pytest.fixture(params=["golden", pytest.param("lerobot", marks=pytest.mark.long)])
def case(request, tmp_path: Path) -> Path:
    """A folder with a policy that LeRobot saved, a batch and LeRobot's outputs."""
    folder = tmp_path / "case"
    if request.param == "golden":
        shutil.copytree(GOLDEN, folder)
    else:
        write_case(folder)
        lerobot("make", folder)
    return folder


@cache
def python() -> Path:
    """Return the interpreter of an environment with LeRobot, made once."""
    return lerobot_python(Path(tempfile.mkdtemp(prefix="lerobot-")), "0.4.4")


def lerobot(*arguments: object) -> None:
    """Run LeRobot's own policy; see lerobots_own.py."""
    script = Path(__file__).with_name("lerobots_own.py").read_text()
    run(python(), script, *arguments)


def policy_of(folder: Path, env: EnvSpec, **keys: object) -> SmolVLAPolicy:
    config = SmolVLAModelConfig(
        model_path=str(folder),
        num_action_chunks=3,
        num_images_in_input=2,
        add_value_head=False,
        smolvla=SmolVLAConfig(num_steps=4, **keys),
    )
    return make(config, env_spec=env)


def observed(batch: dict[str, Tensor]) -> Observation:
    return {
        "cameras": {
            name: batch[f"observation.images.{name}"].numpy() for name in ("camera0", "other")
        },
        "states": batch["observation.state"].numpy(),
        "task_descriptions": TASKS,
        "elapsed": np.zeros(ROWS, np.float32),
    }


def as_tensors(inputs: dict[str, np.ndarray]) -> dict[str, Tensor]:
    return {name: torch.from_numpy(array) for name, array in inputs.items()}


def prefix_of(policy: SmolVLAPolicy, batch: dict[str, Tensor]) -> tuple[PrefixInputs, Tensor]:
    prefix, state, _ = policy.network_inputs(as_tensors(policy.prepare(observed(batch))))
    return prefix, state


def test_inputs_are_prepared_as_lerobot_does(case: Path, env: EnvSpec) -> None:
    batch = load_file(case / "batch.safetensors")
    outputs = load_file(case / "outputs.safetensors")
    prefix, state = prefix_of(policy_of(case / "policy", env), batch)
    for number, frames in enumerate(prefix.images):
        images = prepare_images(frames, SIZE.image_size)
        torch.testing.assert_close(images, outputs["images"][:, number], **CLOSE)
    # LeRobot pads to the longest prompt, we to L
    length = outputs["tokens"].shape[1]
    kept = outputs["token_mask"]
    assert (
        torch.equal(prefix.token_mask[:, :length], kept) and not prefix.token_mask[:, length:].any()
    )
    assert torch.equal(prefix.tokens[:, :length][kept], outputs["tokens"][kept])
    torch.testing.assert_close(state, outputs["state"], **CLOSE)


@torch.no_grad()
def test_prefix_and_one_step_are_lerobots(case: Path, env: EnvSpec) -> None:
    batch = load_file(case / "batch.safetensors")
    outputs = load_file(case / "outputs.safetensors")
    policy = policy_of(case / "policy", env)
    network = policy.actor.network
    prefix, state = prefix_of(policy, batch)
    tokens, mask = network.embed_prefix(prefix, state)
    pixels = torch.ones(ROWS, 2 * SIZE.image_tokens, dtype=torch.bool)
    kept = torch.cat([pixels, outputs["token_mask"], pixels[:, :1]], dim=1)  # the last is the state
    torch.testing.assert_close(tokens[mask], outputs["prefix"][kept], **CLOSE)
    cache = network.encode_prefix(prefix, state)
    features = network.suffix_features(cache, state, batch["noise"], batch["time"])
    torch.testing.assert_close(network.velocity(features), outputs["velocity"], **CLOSE)


def test_actions_are_lerobots(case: Path, env: EnvSpec) -> None:
    batch = load_file(case / "batch.safetensors")
    outputs = load_file(case / "outputs.safetensors")
    policy = policy_of(case / "policy", env)
    keys = RowKeys(tuple((0, row) for row in range(ROWS)))
    inputs = policy.prepare(observed(batch))
    acted = policy.act(inputs, keys, deterministic=True, noise=batch["noise"].numpy())
    torch.testing.assert_close(acted.replay["chain"][:, -1, :, :4], outputs["actions"], **CLOSE)
    np.testing.assert_allclose(acted.actions, outputs["env_actions"][:, :3], rtol=0, atol=1e-5)


def test_loss_and_gradients_are_lerobots(case: Path, env: EnvSpec) -> None:
    batch = load_file(case / "batch.safetensors")
    outputs = load_file(case / "outputs.safetensors")
    policy = policy_of(case / "policy", env)
    network = policy.actor.network
    prefix, state = prefix_of(policy, batch)
    targets = policy.processor.to_model_actions(batch["action"].numpy(), np.zeros((ROWS, 4)))
    loss = network.flow_matching_loss(
        prefix, state, torch.from_numpy(targets), batch["noise"], batch["time"]
    ).mean(dim=(1, 2))
    torch.testing.assert_close(loss, outputs["loss"], **CLOSE)
    loss.sum().backward()
    compared = 0
    for name, parameter in network.named_parameters():
        expected = outputs.get(f"gradient/{file_name(name)}")
        if expected is not None:
            torch.testing.assert_close(parameter.grad, expected, **CLOSE)
            compared += 1
        else:
            assert parameter.grad is None
    assert compared == sum(name.startswith("gradient/") for name in outputs) > 40


@pytest.mark.long
def test_what_we_save_acts_equally_in_lerobot(tmp_path: Path, env: EnvSpec) -> None:
    """Saved and exported after the weights changed; then LeRobot loads the folder."""
    case = tmp_path / "case"
    write_case(case)
    lerobot("make", case)
    policy = policy_of(case / "policy", env)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.01)
    batch = load_file(case / "batch.safetensors")
    keys = RowKeys(tuple((0, row) for row in range(ROWS)))
    inputs = policy.prepare(observed(batch))
    acted = policy.act(inputs, keys, deterministic=True, noise=batch["noise"].numpy())
    policy.save_pretrained(tmp_path / "saved")
    exported = tmp_path / "exported"
    exported.mkdir()
    write_lerobot(tmp_path / "saved", exported)
    lerobot("act", case, exported)
    outputs = load_file(case / "outputs.safetensors")
    np.testing.assert_allclose(acted.actions, outputs["env_actions"][:, :3], rtol=0, atol=1e-5)
