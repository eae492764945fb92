"""Parity with LeRobot's own pipeline, folders in both directions, and what is drawn from keys."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from rlcore_testing.conformance.fake_env import fake_demonstration, fake_env, fake_observation

from rlcore.contracts.errors import CheckpointError, ConfigError
from rlcore.contracts.rng import RowKeys

pytest.importorskip("lerobot", reason="LeRobot is not installed here; see test_with_lerobot.py")

from lerobot.configs.policies import PreTrainedConfig
from lerobot.configs.types import FeatureType, PolicyFeature
from lerobot.policies.act.configuration_act import ACTConfig
from lerobot.policies.act.modeling_act import ACTPolicy
from lerobot.policies.factory import get_policy_class, make_pre_post_processors
from rlcore_model_lerobot.factory import make as make_anywhere
from rlcore_model_lerobot.policy import make
from rlcore_model_lerobot.settings import LeRobotConfig, LeRobotModelConfig

CLOSE = {"rtol": 0, "atol": 1e-5}
ROWS = 3
CHUNKS = 4
ENV = fake_env(cameras=2)
KEYS = RowKeys(tuple((0, row) for row in range(ROWS)))
FIELDS = {
    "act": {"dim_model": 16, "n_heads": 2, "dim_feedforward": 16, "dropout": 0.0, "use_vae": False},
    "diffusion": {
        "down_dims": [8, 16],
        "n_groups": 4,
        "diffusion_step_embed_dim": 8,
        "spatial_softmax_num_keypoints": 4,
        "noise_scheduler_type": "DDIM",  # draws once: LeRobot can be given that noise
        "num_inference_steps": 4,
    },
}


def config_of(kind: str, folder: Path | None = None, **keys: object) -> LeRobotModelConfig:
    if folder is None:
        own = LeRobotConfig(type=kind, config=FIELDS[kind])
        return LeRobotModelConfig(num_action_chunks=CHUNKS, lerobot=own)
    own = LeRobotConfig(**keys)
    return LeRobotModelConfig(num_action_chunks=CHUNKS, model_path=str(folder), lerobot=own)


@pytest.fixture(params=FIELDS)
def kind(request) -> str:
    return request.param


def built(kind: str):
    """A policy with statistics of demonstrations and weights that nobody initialises."""
    torch.manual_seed(0)
    policy = make(config_of(kind), env_spec=ENV)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.01 * torch.randn_like(parameter))
    policy.fit_normalizer([fake_demonstration(ENV, 12, seed) for seed in range(3)])
    return policy


def tensors(inputs):
    return {name: torch.from_numpy(np.array(array)) for name, array in inputs.items()}


def their_batch(observation, row: int) -> dict[str, object]:
    """What LeRobot's own loop gives its preprocessor for one env, made without our code."""
    batch: dict[str, object] = {"task": observation["task_descriptions"][row]}
    batch["observation.state"] = torch.from_numpy(observation["states"][row])
    for name, frames in observation["cameras"].items():
        picture = torch.from_numpy(frames[row].transpose(2, 0, 1).copy())
        batch[f"observation.images.{name}"] = picture.float() / 255
    return batch


def their_actions(folder: Path, observation, noise: np.ndarray | None) -> np.ndarray:
    """Actions `[B, C, A]` of LeRobot's own loop: each env alone, after a reset."""
    config = PreTrainedConfig.from_pretrained(folder)
    policy = get_policy_class(config.type).from_pretrained(folder, config=config)
    before, after = make_pre_post_processors(config, pretrained_path=str(folder))
    rows = []
    for row in range(len(observation["states"])):
        policy.reset()
        batch = before(their_batch(observation, row))
        given = {} if noise is None else {"noise": torch.from_numpy(noise[row : row + 1])}
        chosen = [after(policy.select_action(dict(batch), **given)) for _ in range(CHUNKS)]
        rows.append(torch.cat(chosen).numpy())
        if config.type == "act":  # its chunk is one call too
            chunk = after(policy.predict_action_chunk(dict(batch)))[0, :CHUNKS]
            torch.testing.assert_close(chunk, torch.cat(chosen), **CLOSE)
    return np.stack(rows)


def test_actions_are_those_of_lerobots_own_loop(kind, tmp_path):
    """What rlcore saves LeRobot loads, and acts equally; rlcore loads it again, to the bit."""
    policy = built(kind)
    observation = fake_observation(ENV, ROWS)
    inputs = policy.prepare(observation)
    acted = policy.act(inputs, KEYS).actions
    policy.save_pretrained(tmp_path)
    shape = (policy.spec.action_horizon, 4)
    noise = KEYS.normal("draw 0", shape) if kind == "diffusion" else None
    np.testing.assert_allclose(acted, their_actions(tmp_path, observation, noise), **CLOSE)
    again = make(config_of(kind, tmp_path), env_spec=ENV)
    np.testing.assert_array_equal(again.act(inputs, KEYS).actions, acted)
    again.save_pretrained(tmp_path / "again")
    for file in (file for file in tmp_path.iterdir() if file.is_file()):
        copy = tmp_path / "again" / file.name
        if file.suffix == ".json":
            assert json.loads(copy.read_text()) == json.loads(file.read_text())
        else:
            assert copy.read_bytes() == file.read_bytes()


def test_a_process_of_another_interpreter_acts_equally(kind, tmp_path):
    """From the same folder, and from scratch; with the noise of the same keys."""
    policy = built(kind)
    policy.save_pretrained(tmp_path)
    observation = fake_observation(ENV, ROWS)
    own = LeRobotConfig(python=sys.executable)
    config = LeRobotModelConfig(num_action_chunks=CHUNKS, model_path=str(tmp_path), lerobot=own)
    scratch = replace(config_of(kind), lerobot=replace(own, type=kind, config=FIELDS[kind]))
    for elsewhere, here in ((config, config_of(kind, tmp_path)), (scratch, config_of(kind))):
        torch.manual_seed(0)
        there = make_anywhere(elsewhere, env_spec=ENV).to("cpu")
        torch.manual_seed(0)
        policy = make(here, env_spec=ENV)
        inputs = there.prepare(observation)
        acted = there.act(inputs, KEYS)
        np.testing.assert_allclose(acted.actions, policy.act(inputs, KEYS).actions, **CLOSE)
        assert acted.logprobs.shape == acted.actions.shape and acted.values.shape == (ROWS, 0)
        there.save_pretrained(tmp_path / "there")
        policy.save_pretrained(tmp_path / "here")
        saved = (tmp_path / f"{side}/model.safetensors" for side in ("there", "here"))
        assert next(saved).read_bytes() == next(saved).read_bytes()


def test_a_folder_that_lerobot_saved_loads_and_acts_equally(tmp_path):
    """With pictures of other names, a longer chunk, and a field that would download weights."""
    picture = PolicyFeature(FeatureType.VISUAL, (3, 48, 64))
    config = ACTConfig(
        device="cpu",
        push_to_hub=False,
        chunk_size=9,
        n_action_steps=9,
        input_features={
            "observation.images.wrist": picture,
            "observation.state": PolicyFeature(FeatureType.STATE, (4,)),
            "observation.images.top": picture,
        },
        output_features={"action": PolicyFeature(FeatureType.ACTION, (4,))},
        pretrained_backbone_weights=None,
        **{**FIELDS["act"], "use_vae": True},
    )
    torch.manual_seed(1)
    theirs = ACTPolicy(config)
    ones = np.ones(4, np.float32)
    pictures = {"mean": np.full((3, 1, 1), 0.4), "std": np.full((3, 1, 1), 0.3)}
    stats = {
        "observation.state": {"mean": 0.1 * ones, "std": 0.7 * ones},
        "action": {"mean": -0.2 * ones, "std": 0.6 * ones},
        **{name: pictures for name in ("observation.images.wrist", "observation.images.top")},
    }
    before, after = make_pre_post_processors(config, dataset_stats=stats)
    for part in (theirs, before, after):
        part.save_pretrained(tmp_path)
    content = json.loads((tmp_path / "config.json").read_text())
    content["pretrained_backbone_weights"] = "ResNet18_Weights.IMAGENET1K_V1"
    (tmp_path / "config.json").write_text(json.dumps(content))
    policy = make(config_of("act", tmp_path, cameras=["camera1", "camera0"]), env_spec=ENV)
    assert (policy.spec.action_horizon, policy.spec.num_action_chunks) == (9, CHUNKS)
    observation = fake_observation(ENV, ROWS)
    acted = policy.act(policy.prepare(observation), KEYS).actions
    theirs.eval()
    for row in range(ROWS):
        batch = their_batch(observation, row)
        renamed = {
            "observation.state": batch["observation.state"],
            "observation.images.wrist": batch["observation.images.camera1"],
            "observation.images.top": batch["observation.images.camera0"],
        }
        chunk = after(theirs.predict_action_chunk(before(renamed)))[0, :CHUNKS]
        np.testing.assert_allclose(acted[row], chunk.numpy(), **CLOSE)
    policy.save_pretrained(tmp_path / "saved")
    kept = json.loads((tmp_path / "saved/config.json").read_text())
    assert kept == {**content, "n_action_steps": CHUNKS}
    demonstration = fake_demonstration(ENV, 12)
    policy.fit_normalizer([demonstration])
    policy.save_pretrained(tmp_path / "fitted")
    fitted, _ = make_pre_post_processors(config, pretrained_path=str(tmp_path / "fitted"))
    raw = {**renamed, "action": torch.from_numpy(demonstration.actions[:1])}
    normalised = fitted(dict(raw))
    for name in ("observation.images.wrist", "observation.images.top"):  # those of the folder
        expected = (raw[name] - 0.4) / 0.3
        torch.testing.assert_close(normalised[name][0], expected, **CLOSE)
    shown = demonstration.actions
    units = (shown[:1] - shown.mean(0)) / shown.std(0)
    np.testing.assert_allclose(normalised["action"].numpy(), units, rtol=0, atol=1e-4)


def test_the_loss_of_act_is_lerobots(tmp_path):
    policy = built("act")
    demonstration = fake_demonstration(ENV, 12)
    inputs, actions, mask = policy.sft_batch(demonstration, [0, 2, 5])
    assert mask.tolist()[2] == [True, True, False, False]  # frame 5 is of step 10 of 12
    loss = policy.sft_loss(tensors(inputs), torch.from_numpy(actions), torch.from_numpy(mask), KEYS)
    loss.mean().backward()
    policy.save_pretrained(tmp_path)
    config = PreTrainedConfig.from_pretrained(tmp_path)
    theirs = get_policy_class("act").from_pretrained(tmp_path, config=config)
    before, _ = make_pre_post_processors(config, pretrained_path=str(tmp_path))
    steps = demonstration.frame_steps[[0, 2, 5]]
    batch = {
        "observation.state": torch.from_numpy(demonstration.states[steps]),
        "action": torch.from_numpy(actions),
        "action_is_pad": torch.from_numpy(~mask),
        **{
            f"observation.images.{name}": torch.from_numpy(frames[[0, 2, 5]])
            .permute(0, 3, 1, 2)
            .float()
            / 255
            for name, frames in demonstration.frames.items()
        },
    }
    theirs.train()
    expected, _ = theirs.forward(before(batch))
    expected.backward()
    torch.testing.assert_close(loss.detach(), expected.detach().expand(ROWS), **CLOSE)
    ours = dict(policy.policy.named_parameters())
    compared = 0
    for name, parameter in theirs.named_parameters():
        if parameter.grad is not None:
            torch.testing.assert_close(ours[name].grad, parameter.grad, **CLOSE)
            compared += 1
    assert compared > 60


def test_an_entry_that_hardly_moves_counts_like_others_in_the_loss():
    """Its least spread is a tenth of half its range: an error of that much is 1 in the loss, and
    in the mean absolute error over four entries a quarter."""
    policy = built("act")
    shown = fake_demonstration(ENV, 12)
    actions = shown.actions.copy()
    actions[:, -1] = 0.25
    held = replace(shown, actions=actions)
    policy.fit_normalizer([held])
    moved = actions.copy()
    half_range = (ENV.action_high[-1] - ENV.action_low[-1]) / 2
    moved[:, -1] += 0.1 * half_range
    losses = []
    for each in (held, replace(shown, actions=moved)):
        inputs, targets, mask = policy.sft_batch(each, [0, 2, 5])
        given = tensors(inputs), torch.from_numpy(targets), torch.from_numpy(mask)
        losses.append(policy.sft_loss(*given, KEYS)[0].item())
    assert 0.0 < abs(losses[1] - losses[0]) <= 0.25 + 1e-5


def test_the_loss_of_diffusion_has_noise_and_times_of_the_keys():
    """The mean square of eps - eps^ over all entries, at times and noise that the keys give."""
    policy = built("diffusion")
    inputs, actions, mask = policy.sft_batch(fake_demonstration(ENV, 30), [0, 1, 2])
    assert mask.all()
    loss = policy.sft_loss(
        tensors(inputs), torch.from_numpy(actions), torch.from_numpy(mask), KEYS
    ).mean()
    low, high = actions_range()
    units = torch.from_numpy(2 * (actions - low) / (high - low) - 1)
    noise = torch.from_numpy(KEYS.normal("draw 0", units.shape[1:]))
    times = torch.from_numpy(np.floor(100 * KEYS.uniform("draw 1", ())).astype(np.int64))
    model = policy.policy.diffusion
    noisy = model.noise_scheduler.add_noise(units, noise, times)
    seen = []
    handle = model.unet.register_forward_pre_hook(
        lambda module, args, kwargs: seen.append((args, kwargs)), with_kwargs=True
    )
    policy.sft_loss(tensors(inputs), torch.from_numpy(actions), torch.from_numpy(mask), KEYS)
    handle.remove()
    ((given, at), conditions) = seen[0]
    torch.testing.assert_close(given, noisy, **CLOSE)
    assert torch.equal(at, times)
    predicted = model.unet(noisy, times, **conditions)
    torch.testing.assert_close(loss, (predicted - noise).square().mean(), **CLOSE)


def actions_range() -> tuple[np.ndarray, np.ndarray]:
    """Least and largest actions of the demonstrations that :func:`built` fits."""
    shown = np.concatenate([fake_demonstration(ENV, 12, seed).actions for seed in range(3)])
    return shown.min(0), shown.max(0)


def test_what_is_drawn_leaves_torchs_generator_as_it_was():
    policy = built("diffusion")
    inputs = policy.prepare(fake_observation(ENV, ROWS))
    torch.manual_seed(3)
    state = torch.get_rng_state()
    policy.act(inputs, KEYS)
    assert torch.equal(torch.get_rng_state(), state)


def test_lerobots_refusals_name_the_key(refused, tmp_path):
    with refused(ConfigError, "lerobot.config", "heads", text=False):
        fields = LeRobotConfig(type="act", config={"heads": 3})
        make(LeRobotModelConfig(lerobot=fields), env_spec=ENV)
    with refused(ConfigError, "num_action_chunks", text=False):
        fields = LeRobotConfig(type="act", config={"n_action_steps": 3})
        make(LeRobotModelConfig(lerobot=fields), env_spec=ENV)
    with refused(ConfigError, "vision_backbone", "vgg", text=False):
        fields = LeRobotConfig(type="act", config={"vision_backbone": "vgg"})
        make(LeRobotModelConfig(lerobot=fields), env_spec=ENV)
    built("act").save_pretrained(tmp_path)
    content = json.loads((tmp_path / "config.json").read_text())
    for changes in ({"type": "flying"}, {"dim_model": 32}):
        (tmp_path / "config.json").write_text(json.dumps({**content, **changes}))
        with refused(CheckpointError, str(tmp_path), text=False):
            make(config_of("act", tmp_path), env_spec=ENV)


def test_a_repeated_observation_fills_the_history(tmp_path):
    """As LeRobot does in the first step of an episode, whose policy sees two."""
    policy = built("diffusion")
    config = replace(policy.policy.config, n_obs_steps=2, horizon=8)
    torch.manual_seed(0)
    theirs = get_policy_class("diffusion")(config)
    theirs.save_pretrained(tmp_path)
    policy.save_pretrained(tmp_path / "processors")
    for file in (tmp_path / "processors").glob("policy_*"):
        file.rename(tmp_path / file.name)
    policy = make(config_of("diffusion", tmp_path, repeat_observation=True), env_spec=ENV)
    observation = fake_observation(ENV, ROWS)
    acted = policy.act(policy.prepare(observation), KEYS).actions
    noise = KEYS.normal("draw 0", (config.horizon, 4))
    np.testing.assert_allclose(acted, their_actions(tmp_path, observation, noise), **CLOSE)
