"""Checkpoint folders: equal after a round trip, and one clear error for each fault."""

from __future__ import annotations

import json
import logging
import math
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from rlcore_model_openpi.policy import make
from rlcore_model_openpi.settings import OpenPIConfig, OpenPIModelConfig
from rlcore_model_openpi.spec import policy_spec
from safetensors.torch import load_file, save_file

from rlcore.contracts.errors import CheckpointError
from rlcore.contracts.rng import RowKeys

KEYS = RowKeys(tuple((1, row) for row in range(3)))


def settings(**openpi) -> OpenPIModelConfig:
    base = {
        "size": "tiny",
        "num_steps": 3,
        "train_expert_only": False,
        "critic_hidden": [16],
        "critic_elapsed": True,
        "noise_method": "flow_noise",
        "joint_logprob": True,
    }
    return OpenPIModelConfig(
        num_action_chunks=4, add_value_head=True, openpi=OpenPIConfig(**{**base, **openpi})
    )


def at(config: OpenPIModelConfig, folder) -> OpenPIModelConfig:
    return replace(config, model_path=str(folder))


@pytest.fixture
def saved(env_spec, demonstrate, tmp_path):
    """A policy with fitted statistics, and the folder it was saved to."""
    torch.manual_seed(0)
    policy = make(settings(), env_spec=env_spec)
    policy.fit_normalizer([demonstrate(env_spec, 20)])
    folder = tmp_path / "checkpoint"
    policy.save_pretrained(folder)
    return policy, folder


def assert_equal_outputs(policy, other, observation):
    inputs, same = policy.prepare(observation), other.prepare(observation)
    for name, array in inputs.items():
        np.testing.assert_array_equal(array, same[name], err_msg=name)
    out, again = policy.act(inputs, KEYS), other.act(same, KEYS)
    assert out.actions.tobytes() == again.actions.tobytes()
    assert torch.equal(out.logprobs, again.logprobs) and torch.equal(out.values, again.values)


def test_the_folder_holds_all_a_load_needs(saved):
    _, folder = saved
    files = sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())
    assert files == [
        "assets/lerobot/metaworld_mt50/norm_stats.json",
        "config.json",
        "model.safetensors",
        "paligemma_tokenizer.model",
        "rl_heads.safetensors",
    ]
    content = json.loads((folder / "config.json").read_text())
    assert content["model"]["openpi"]["noise_method"] == "flow_noise"
    assert content["model"]["model_path"] is None and content["size"]["depth"] == 2


def test_round_trip_is_bitwise(saved, env_spec, observe):
    policy, folder = saved
    other = make(at(settings(), folder), env_spec=env_spec)
    observation = observe(env_spec, 3)
    observation["task_descriptions"][0] = "a sentence nobody saw"
    assert_equal_outputs(policy, other, observation)
    groups = other.parameter_groups()
    assert all(p.requires_grad and not p.is_meta for group in groups.values() for p in group)


def test_round_trip_of_a_value_per_action(saved, env_spec, observe, tmp_path, refused):
    config = settings(value_type="action_level")
    policy = make(config, env_spec=env_spec)
    policy.save_pretrained(tmp_path / "per_action")
    other = make(at(config, tmp_path / "per_action"), env_spec=env_spec)
    assert_equal_outputs(policy, other, observe(env_spec, 3))
    assert other.act(other.prepare(observe(env_spec, 3)), KEYS).values.shape == (3, 4)  # C
    _, folder = saved  # its critic gives one value per decision
    with refused(CheckpointError, "value_head"):
        make(at(config, folder), env_spec=env_spec)


@pytest.mark.parametrize("config_name", ["pi0_metaworld", "pi05_metaworld"])
def test_round_trip_of_the_siglip_layout(env_spec, observe, tmp_path, config_name):
    config = settings(size="small", config_name=config_name, noise_method="flow_sde")
    policy = make(config, env_spec=env_spec)
    policy.save_pretrained(tmp_path)
    other = make(at(config, tmp_path), env_spec=env_spec).to("cpu", torch.float32)
    assert_equal_outputs(policy, other, observe(env_spec, 3))


def test_adapters_are_merged(env_spec, observe, tmp_path):
    config = replace(settings(), is_lora=True, lora_rank=4)
    policy = make(config, env_spec=env_spec)
    with torch.no_grad():
        for name, parameter in policy.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.05)
    policy.save_pretrained(tmp_path)
    other = make(at(settings(), tmp_path), env_spec=env_spec)
    inputs = policy.prepare(observe(env_spec, 3))
    np.testing.assert_allclose(
        other.act(inputs, KEYS).actions, policy.act(inputs, KEYS).actions, atol=1e-4
    )


def test_a_critic_can_be_added_to_a_policy_without_one(env_spec, observe, tmp_path, caplog):
    bare = replace(settings(critic_elapsed=False, noise_method="flow_sde"), add_value_head=False)
    policy = make(bare, env_spec=env_spec)
    policy.save_pretrained(tmp_path)
    assert not (tmp_path / "rl_heads.safetensors").exists()
    with caplog.at_level(logging.INFO):
        other = make(at(settings(), tmp_path), env_spec=env_spec)
    assert "value_head" in caplog.text
    assert other.act(other.prepare(observe(env_spec, 3)), KEYS).values.shape == (3, 1)


def test_published_folders_keep_their_statistics_at_the_top(saved, env_spec, observe):
    policy, folder = saved
    shutil.move(folder / "assets" / "lerobot", folder / "lerobot")
    (folder / "assets").rmdir()
    (folder / "config.json").unlink()
    other = make(at(settings(), folder), env_spec=env_spec)
    assert_equal_outputs(policy, other, observe(env_spec, 3))


# -- faults -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "",
        "model.safetensors",
        "paligemma_tokenizer.model",
        "assets/lerobot/metaworld_mt50/norm_stats.json",
    ],
)
def test_missing_files_are_refused(saved, refuse, name):
    _, folder = saved
    if name:
        (folder / name).unlink()
    else:
        shutil.rmtree(folder)
    refuse(at(settings(), folder), folder, name.rpartition("/")[2])


@pytest.mark.parametrize("name", ["model.safetensors", "rl_heads.safetensors"])
@pytest.mark.parametrize("kept", [0.5, 1e-4, 0.0])  # within the tensors, the header, nothing
def test_truncated_weights_are_refused(saved, refuse, name, kept):
    _, folder = saved
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: int(len(content) * kept)])
    refuse(at(settings(), folder), name, text=False)  # with safetensors' own words


def test_damaged_settings_are_refused(saved, refuse):
    _, folder = saved
    (folder / "config.json").write_text("{")
    refuse(at(settings(), folder), "config.json", text=False)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"size": "small"}, "vlm_width 64"),
        ({"critic_hidden": [32]}, "rl_heads.safetensors"),
        ({"asset_id": "my/robot"}, "assets/lerobot/metaworld_mt50"),
        # shapes fit, yet what the numbers mean is the config's
        ({"config_name": "pi0_maniskill", "action_horizon": 5}, "config_name 'pi0_metaworld'"),
    ],
)
def test_settings_that_do_not_fit_the_folder_are_refused(saved, refuse, changes, word):
    _, folder = saved
    config = at(settings(**changes), folder)
    refuse(config, word)
    if "size" in changes:
        (folder / "config.json").unlink()  # then the weights themselves tell
        refuse(config, "model.safetensors")


def test_another_robot_is_refused(saved, refuse, other_env):
    _, folder = saved
    refuse(at(settings(), folder), "'actions'", "4 entries", "6", env=other_env(action=6))


@pytest.mark.parametrize(
    ("key", "trained", "changed"),
    [
        ("value_vlm_mode", "mean_token", "first_token"),
        ("noise_logvar_range", [0.08, 0.16], [0.1, 0.2]),
    ],
)
def test_heads_that_fit_but_mean_something_else_are_refused(
    env_spec, demonstrate, tmp_path, refuse, key, trained, changed
):
    before = settings(value_after_vlm=True, **{key: trained})
    after = at(settings(value_after_vlm=True, **{key: changed}), tmp_path)
    policy = make(before, env_spec=env_spec)
    policy.fit_normalizer([demonstrate(env_spec, 20)])
    policy.save_pretrained(tmp_path)
    refuse(after, key, trained, changed)
    policy_spec(at(before, tmp_path), env_spec)
    (tmp_path / "rl_heads.safetensors").unlink()  # fresh heads may read anything
    policy_spec(after, env_spec)


def test_the_noise_range_that_rlinf_stores_beside_its_head(saved, env_spec, refuse):
    _, folder = saved
    path = folder / "model.safetensors"
    stored = load_file(path)
    for name, std in (("min", 0.08), ("max", 0.16)):
        stored[f"noise_head.logvar_{name}"] = torch.tensor([2 * math.log(std)])
    save_file(stored, path)
    (folder / "rl_heads.safetensors").unlink()
    policy_spec(at(settings(), folder), env_spec)
    config = at(settings(noise_logvar_range=[0.08, 0.2]), folder)
    refuse(config, "noise_logvar_range [0.08", "[0.08, 0.2]")
