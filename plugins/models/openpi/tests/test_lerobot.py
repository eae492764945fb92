"""Folders as LeRobot writes them, since 0.4 and before: they load as LeRobot computes with them."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from originals import (
    LeRobotPolicy,
    PI0Pytorch,
    assert_holds,
    lerobot_config,
    statistics,
    write_json,
    write_lerobot,
    write_lerobot_before_04,
    write_tokenizer,
)
from rlcore_model_openpi.policy import make
from rlcore_model_openpi.settings import OpenPIConfig, OpenPIModelConfig
from rlcore_model_openpi.sizes import SIZES
from rlcore_model_openpi.spec import policy_spec
from safetensors.torch import load_file

from rlcore.contracts.rng import RowKeys
from rlcore.contracts.specs import ActionChannel

KEYS = RowKeys(tuple((1, row) for row in range(3)))
SIZE = SIZES["tiny_siglip"]
AFTER = "policy_postprocessor_step_0_unnormalizer_processor.safetensors"


@pytest.fixture(params=[False, True], ids=["pi0", "pi05"])
def size(request):
    return replace(SIZE, pi05=request.param, action_horizon=6, max_token_len=100)


@pytest.fixture
def original(size) -> PI0Pytorch:
    torch.manual_seed(0)
    return PI0Pytorch(size)


@pytest.fixture
def write(tmp_path, original, size, env_spec):
    """Writes a folder with changes of `config.json`, other statistics, or in the old form."""

    def _write(*, stats=None, old=False, **changes):
        folder = tmp_path / "pretrained_model"
        config = lerobot_config(size, env_spec, **changes)
        stats = statistics(env_spec) if stats is None else stats
        (write_lerobot_before_04 if old else write_lerobot)(folder, original, config, stats)
        write_tokenizer(folder, size, env_spec)
        return folder

    return _write


def settings(folder, size, **openpi) -> OpenPIModelConfig:
    name = "pi05_metaworld" if size.pi05 else "pi0_metaworld"
    keys = {"config_name": name, "size": "tiny_siglip", "num_steps": 2, **openpi}
    return OpenPIModelConfig(
        model_path=str(folder), num_action_chunks=4, openpi=OpenPIConfig(**keys)
    )


# -- layouts ------------------------------------------------------------------------------------


def test_a_folder_since_04(write, original, size, env_spec):
    """Nulls of the settings are taken from it."""
    folder = write()
    names = load_file(folder / "model.safetensors")
    assert all(name.startswith("model.") for name in names)
    policy = make(settings(folder, size), env_spec=env_spec)
    assert_holds(policy, original)
    resolved = policy.processor.resolved
    assert (resolved.size.action_horizon, resolved.size.max_token_len) == (6, 100)
    assert resolved.discrete_state == size.pi05  # LeRobot's π0.5 always has it in the prompt


def test_a_folder_of_before_04(write, original, size, env_spec):
    if size.pi05:
        pytest.skip("LeRobot has π0.5 since 0.4")
    folder = write(old=True)
    names = load_file(folder / "model.safetensors")
    assert "unnormalize_outputs.buffer_action.mean" in names
    policy = make(settings(folder, size), env_spec=env_spec)
    assert_holds(policy, original)
    stats = statistics(env_spec)
    normalizer = policy.processor.normalizer
    np.testing.assert_array_equal(normalizer.state.mean, stats["state"]["mean"])
    np.testing.assert_array_equal(normalizer.actions.std, stats["actions"]["std"])


def test_the_tokenizer_is_not_in_the_folder(write, size, env_spec, refuse):
    folder = write()
    (folder / "paligemma_tokenizer.model").rename(folder / "elsewhere")
    refuse(settings(folder, size), "paligemma_tokenizer.model", "big_vision")
    (folder / "tokenizer").mkdir()
    (folder / "elsewhere").rename(folder / "tokenizer" / "tokenizer.model")
    policy_spec(settings(folder, size), env_spec)


def test_it_acts_alike_after_it_was_saved_by_us(write, size, env_spec, observe, tmp_path):
    """The statistics and how they scale go with it, and so do relative actions."""
    folder = write(use_relative_actions=True)
    policy = make(settings(folder, size), env_spec=env_spec)
    policy.save_pretrained(tmp_path / "ours")
    again = make(settings(tmp_path / "ours", size), env_spec=env_spec)
    inputs = policy.prepare(observe(env_spec, 3))
    for name, array in inputs.items():
        np.testing.assert_array_equal(array, again.prepare(observe(env_spec, 3))[name])
    assert policy.act(inputs, KEYS).actions.tobytes() == again.act(inputs, KEYS).actions.tobytes()


def test_statistics_are_lerobots_only_in_a_folder_of_lerobots(write, size, env_spec, refuse, edit):
    folder = write()
    assert make(settings(folder, size), env_spec=env_spec).processor.normalizer.actions is not None
    edit(folder / "config.json", {"type": None})
    refuse(settings(folder, size), "norm_stats.json")


# -- numbers: worked by hand from LeRobot's `_apply_transform` -------------------------------------


def scaled(write, size, env_spec, mode, fields):
    """The normaliser of a folder whose statistics are `fields`, alike for state and actions, and
    whose first entry is looked at."""
    stats = {
        name: {field: np.full(4, value, np.float32) for field, value in fields.items()}
        for name in ("state", "actions")
    }
    modes = {"VISUAL": "IDENTITY", "STATE": mode, "ACTION": mode}
    folder = write(stats=stats, normalization_mapping=modes)
    return make(settings(folder, size), env_spec=env_spec).processor.normalizer


@pytest.mark.parametrize(
    ("mode", "fields", "state", "action"),
    [
        # (3 - 1) / 2 = 1;  3 * 2 + 1 = 7
        ("MEAN_STD", {"mean": 1, "std": 2}, 1.0, 7.0),
        # 2 (3 - 1) / (5 - 1) - 1 = 0;  (3 + 1) 4 / 2 + 1 = 9
        ("QUANTILES", {"q01": 1, "q99": 5, "mean": 9, "std": 9}, 0.0, 9.0),
        ("QUANTILE10", {"q10": 1, "q90": 5}, 0.0, 9.0),
        ("MIN_MAX", {"min": 1, "max": 5}, 0.0, 9.0),
        ("IDENTITY", {"mean": 1, "std": 2}, 3.0, 3.0),
    ],
)
def test_every_mode_scales_as_lerobot_does(write, size, env_spec, mode, fields, state, action):
    normalizer = scaled(write, size, env_spec, mode, fields)
    three = np.full((1, 4), 3.0, np.float32)
    assert normalizer.normalize_state(three)[0, 0] == pytest.approx(state, abs=1e-6)
    assert normalizer.unnormalize_actions(three)[0, 0] == pytest.approx(action, abs=1e-6)


def test_a_still_entry(write, size, env_spec):
    """std 0: (1 + 2e-8 - 1) / 1e-8 = 2 on the way in; x * 0 + 1 = 1 on the way back, where openpi
    has x * 1e-6 + 1. Bounds without a span: 2 * 2e-8 / 1e-8 - 1 = 3, and (x + 1) 1e-8 / 2 + 1."""
    close = np.full((1, 4), 1 + 2e-8)
    normalizer = scaled(write, size, env_spec, "MEAN_STD", {"mean": 1, "std": 0})
    assert normalizer.normalize_state(close)[0, 0] == pytest.approx(2, rel=1e-6)
    assert normalizer.unnormalize_actions(np.full((1, 4), 1e5))[0, 0] == 1.0
    normalizer = scaled(write, size, env_spec, "QUANTILES", {"q01": 1, "q99": 1})
    assert normalizer.normalize_state(close)[0, 0] == pytest.approx(3, rel=1e-6)
    back = normalizer.unnormalize_actions(np.full((1, 4), 1e8))[0, 0]
    assert back == pytest.approx(1.5, rel=1e-6)


def test_state_and_actions_may_be_scaled_differently(write, size, env_spec):
    modes = {"VISUAL": "IDENTITY", "STATE": "QUANTILES", "ACTION": "MEAN_STD"}
    folder = write(normalization_mapping=modes)
    normalizer = make(settings(folder, size), env_spec=env_spec).processor.normalizer
    assert normalizer.state_formula.quantile and not normalizer.action_formula.quantile


def test_a_base_model_has_no_statistics(write, size, env_spec, demonstrate):
    """As `lerobot/pi0_base` and `lerobot/pi05_base`: LeRobot then scales nothing, and we
    scale actions to the env's range, of which 0 is the middle."""
    folder = write(stats={})
    policy = make(settings(folder, size), env_spec=env_spec)
    values = np.linspace(-2, 2, 4, dtype=np.float32)[None]
    normalizer = policy.processor.normalizer
    np.testing.assert_allclose(normalizer.normalize_state(values), values, rtol=1e-6)
    np.testing.assert_allclose(normalizer.unnormalize_actions(values), values, rtol=1e-6)
    wide = replace(env_spec, actions=(ActionChannel("joint_position", 4, 0.0, 512.0),))
    executed = make(settings(folder, size), env_spec=wide).processor.normalizer
    np.testing.assert_allclose(executed.unnormalize_actions(np.zeros((1, 4))), 256, rtol=1e-6)
    policy.fit_normalizer([demonstrate(env_spec, 20)])  # what supervised training does first
    assert (policy.processor.normalizer.unnormalize_actions(values) != values).all()


def test_statistics_that_were_never_filled_before_04(write, size, env_spec):
    """As in `lerobot/pi0`: infinity."""
    if size.pi05:
        pytest.skip("LeRobot has π0.5 since 0.4")
    stats = {
        name: {field: np.full(4, np.inf, np.float32) for field in ("mean", "std")}
        for name in ("state", "actions")
    }
    policy = make(settings(write(old=True, stats=stats), size), env_spec=env_spec)
    values = np.ones((1, 4), np.float32)
    np.testing.assert_array_equal(policy.processor.normalizer.unnormalize_actions(values), values)


def test_a_policy_like_pi05_libero_finetuned(tmp_path, other_env, observe):
    """Two cameras and an empty one, 8 entries of state and 7 of action, scaled by mean and std in a
    π0.5, 50 actions where config_name says 10, and the state in a prompt of 200 tokens."""
    env = other_env(state=8, action=7, cameras=2)
    size = replace(SIZE, pi05=True, action_horizon=50, max_token_len=200)
    torch.manual_seed(0)
    original = PI0Pytorch(size)
    modes = {"VISUAL": "IDENTITY", "STATE": "MEAN_STD", "ACTION": "MEAN_STD"}
    config = lerobot_config(size, env, normalization_mapping=modes, n_action_steps=10)
    write_lerobot(tmp_path, original, config, statistics(env))
    write_tokenizer(tmp_path, size, env)
    keys = settings(tmp_path, size, config_name="pi05_libero", num_images_in_input=2)
    policy = make(keys, env_spec=env)
    assert_holds(policy, original)
    resolved = policy.processor.resolved
    assert resolved.discrete_state and not resolved.action_formula.quantile
    assert (resolved.size.action_horizon, resolved.size.max_token_len) == (50, 200)
    stats = statistics(env)["actions"]
    ones = policy.processor.normalizer.unnormalize_actions(np.ones((1, 7)))
    np.testing.assert_allclose(ones[0], stats["mean"] + stats["std"], rtol=1e-6)
    assert policy.act(policy.prepare(observe(env, 3)), KEYS).actions.shape == (3, 4, 7)


def test_relative_actions(write, size, env_spec):
    """Entries whose name has no "gripper" are added to the state at the decision."""
    names = ["x", "y", "z", "Gripper_open"]
    folder = write(use_relative_actions=True, action_feature_names=names)
    policy = make(settings(folder, size), env_spec=env_spec)
    data = policy.processor.resolved.data
    assert data.delta_mask == (True, True, True, False)
    state = np.array([[1.0, 2.0, 3.0, 4.0]])
    actions = data.to_env_actions(np.full((1, 1, 4), 0.5), state, 4)
    np.testing.assert_array_equal(actions, [[[1.5, 2.5, 3.5, 0.5]]])


def test_cameras(write, size, refuse, other_env):
    """Empty cameras are masked, those of base models are any; others must all be there."""
    two = {
        f"observation.images.{name}": {"type": "VISUAL", "shape": [3, 224, 224]}
        for name in ("image", "image2", "empty_camera_0")
    }
    folder = write(input_features=two)
    env = other_env(cameras=2)
    refuse(
        settings(folder, size, num_images_in_input=1), "actor.model.num_images_in_input=2", env=env
    )
    assert policy_spec(settings(folder, size), env).num_images == 2
    base = ("base_0_rgb", "left_wrist_0_rgb", "right_wrist_0_rgb")
    slots = {f"observation.images.{name}": two["observation.images.image"] for name in base}
    folder = write(input_features=slots)
    for cameras in (1, 2):
        policy_spec(settings(folder, size, num_images_in_input=cameras), env)
    assert policy_spec(settings(folder, size), env).num_images == 1


# -- what can't be honoured ------------------------------------------------------------------------


@pytest.mark.quick(12)
@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("type", "smolvla", ["smolvla"]),
        ("type", "pi0_fast", ["pi0_fast"]),
        ("n_obs_steps", 2, ["n_obs_steps 2"]),
        ("max_period", 8.0, ["max_period 8.0", "4.0"]),
        ("use_visual_memory", True, ["use_visual_memory"]),
        ("use_peft", True, ["use_peft"]),
        ("rtc_config", {"enabled": True}, ["rtc_config {'enabled': True}"]),
        ("a_new_setting", 0.5, ["a_new_setting 0.5"]),
        ("image_resolution", [224, 320], ["image_resolution [224, 320]", "[224, 224]"]),
        ("image_resolution", [448, 448], ["image_size 448", "224"]),
        ("chunk_size", "6", ["action_horizon"]),
        ("paligemma_variant", "gemma_2b_lora", ["LoRA"]),
        ("adapt_to_pi_aloha", True, ["ALOHA"]),
        ("normalization_mapping", {"VISUAL": "MEAN_STD"}, ["VISUAL", "MEAN_STD"]),
        ("normalization_mapping", {"ACTION": "TANH"}, ["ACTION", "TANH"]),
    ],
)
def test_settings_that_can_not_be_honoured_are_refused(write, size, refuse, key, value, words):
    folder = write(**{key: value})
    refuse(settings(folder, size), *words)


def test_another_width_of_the_state_is_refused_where_it_is_projected(write, size, env_spec, refuse):
    folder = write(max_state_dim=16)
    if size.pi05:  # which has no projection of it
        policy_spec(settings(folder, size), env_spec)
    else:
        refuse(settings(folder, size), "max_state_dim 16", "32")


def test_keys_that_contradict_the_folder_are_refused(write, size, refuse):
    folder = write()
    own, other = "pi0_metaworld", "pi05_metaworld"
    if size.pi05:
        own, other = other, own
    refuse(settings(folder, size, config_name=other), f"'{other}'", f"config_name={own}")
    refuse(settings(folder, size, action_horizon=5), "action_horizon 6")


def rewrite(path, change) -> None:
    content = json.loads(path.read_text())
    change(content)
    write_json(path, content)


def configure(folder, step, values) -> None:
    """Change the settings of a step before the network."""

    def change(content):
        for each in content["steps"]:
            if each["registry_name"] == f"{step}_processor":
                each["config"] |= values

    rewrite(folder / "policy_preprocessor.json", change)


def test_unknown_steps_are_refused(write, size, refuse):
    folder = write()
    path = folder / "policy_preprocessor.json"
    rewrite(path, lambda content: content["steps"].append({"registry_name": "action_tokenizer"}))
    refuse(settings(folder, size), path, "'action_tokenizer'")


@pytest.mark.parametrize(
    ("step", "key", "value"),
    [
        ("tokenizer", "padding_side", "left"),
        ("tokenizer", "padding", "longest"),
        ("tokenizer", "tokenizer_name", "google/gemma-2b"),
        ("tokenizer", "task_key", "subtask"),
        (
            "rename_observations",
            "rename_map",
            {"observation.images.a": "observation.images.b"},
        ),
        ("device", "float_dtype", "float16"),
        ("normalizer", "clip", 5.0),
        ("normalizer", "eps", 1e-6),
    ],
)
def test_settings_of_steps_that_can_not_be_honoured_are_refused(
    write, size, refuse, step, key, value
):
    folder = write()
    configure(folder, step, {key: value})
    refuse(settings(folder, size), key, value)


def test_a_step_twice_and_one_half_of_relative_actions_are_refused(write, size, refuse):
    folder = write()
    path = folder / "policy_postprocessor.json"
    rewrite(path, lambda content: content["steps"][1]["config"].update(enabled=True))
    refuse(settings(folder, size), "enabled", "absolute_actions_processor")
    rewrite(path, lambda content: content["steps"].append(content["steps"][0]))
    refuse(settings(folder, size), path)


@pytest.mark.parametrize("name", ["google/paligemma-3b-mix-448", "/data/paligemma-3b-pt-224"])
def test_settings_of_steps_without_effect_are_accepted(write, size, env_spec, name):
    folder = write(compile_model=True, optimizer_lr=1e-4, tags=["a"], private=None, a_new_one=False)
    configure(folder, "tokenizer", {"tokenizer_name": name})
    policy_spec(settings(folder, size), env_spec)


@pytest.mark.parametrize("name", [AFTER, "policy_postprocessor.json"])
def test_missing_files_are_refused(write, size, refuse, name):
    folder = write()
    (folder / name).unlink()
    refuse(settings(folder, size), name)


def test_statistics_without_the_numbers_of_their_mode_are_refused(write, size, refuse):
    folder = write(stats={"state": {}, "actions": {"min": np.zeros(4, np.float32)}})
    mode = "QUANTILES" if size.pi05 else "MEAN_STD"
    first = "q01" if size.pi05 else "mean"
    refuse(settings(folder, size), AFTER, f"action.{first}", mode)


def test_another_robot_is_refused(write, size, other_env, refuse):
    folder = write()
    env = other_env(action=6)
    refuse(settings(folder, size), "'actions'", "4 entries", "6", env=env)


def test_damaged_files_are_refused(write, size, refuse):
    folder = write()
    (folder / AFTER).write_bytes((folder / AFTER).read_bytes()[:40])
    refuse(settings(folder, size), AFTER, text=False)  # with safetensors' own words
    write_json(folder / "policy_postprocessor.json", {"steps": 3})
    refuse(settings(folder, size), "policy_postprocessor.json")


# -- what we write ---------------------------------------------------------------------------------


def test_our_weights_load_in_lerobot(write, original, size, env_spec, tmp_path):
    """As its `from_pretrained` does: the tied embedding is copied, `model.` put before all names,
    and all of them loaded strictly."""
    policy = make(settings(write(), size), env_spec=env_spec)
    policy.save_pretrained(tmp_path / "ours")
    state = load_file(tmp_path / "ours" / "model.safetensors")
    within = "paligemma_with_expert.paligemma."
    embedding = f"{within}model.language_model.embed_tokens.weight"
    state[embedding] = state[f"{within}lm_head.weight"].clone()
    again = LeRobotPolicy(PI0Pytorch(size))
    again.load_state_dict({f"model.{name}": tensor for name, tensor in state.items()}, strict=True)
    for name, tensor in original.state_dict().items():
        if "gemma_expert.lm_head" not in name:
            assert torch.equal(again.model.state_dict()[name], tensor), name
