"""Checkpoint folders: equal after a round trip, and one clear error for each fault."""

from __future__ import annotations

import json
import logging
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from rlcore_model_openvla_oft.policy import make
from rlcore_model_openvla_oft.settings import OpenVLAOFTConfig
from rlcore_model_openvla_oft.spec import policy_spec
from rlcore_prismatic import checkpoint
from rlcore_prismatic.layout import network_shapes
from rlcore_prismatic.sizes import SIZES
from rlcore_weights.headers import read_headers
from rlcore_weights.layouts import full_scale, stored_file
from rlcore_weights.tensors import read_stored
from safetensors.torch import load_file, save_file

from rlcore.contracts.errors import ConfigError
from rlcore.contracts.rng import RowKeys
from rlcore.contracts.specs import StateChannel

pytestmark = pytest.mark.filterwarnings(  # checkpoints without our record of the settings
    "ignore:actor.model.center_crop=false:rlcore.config.warning.ConfigWarning"
)
KEYS = RowKeys(tuple((1, row) for row in range(3)))
OFFICIAL = {"implement_version": "official", "use_proprio": True, "proprio_dim": 4}


LORA = {"is_lora": True, "lora_rank": 4, "save_adapters_only": True}


def settings(**changes) -> OpenVLAOFTConfig:
    base = {"size": "tiny", "num_action_chunks": 2, "critic_hidden": [16], "add_value_head": True}
    return OpenVLAOFTConfig(**{**base, **changes})


def at(config: OpenVLAOFTConfig, folder) -> OpenVLAOFTConfig:
    return replace(config, model_path=str(folder))


def made(config: OpenVLAOFTConfig, env_spec, seed: int = 0):
    torch.manual_seed(seed)
    return make(config, env_spec=env_spec)


@pytest.fixture
def saved(env_spec, demonstrate, tmp_path):
    """A policy with fitted statistics, and the folder it was saved to."""
    policy = made(settings(), env_spec)
    policy.fit_normalizer([demonstrate(env_spec, 20)])
    folder = tmp_path / "checkpoint"
    policy.save_pretrained(folder)
    return policy, folder


@pytest.fixture
def adapters(saved, env_spec, tmp_path):
    """The folder of adapters alone, which change what the saved policy does."""
    policy = shaken_adapters(made(at(settings(**LORA), saved[1]), env_spec))
    policy.save_pretrained(tmp_path / "adapters")
    return tmp_path / "adapters"


def outputs(policy, observation, **how):
    return policy.act(policy.prepare(observation), KEYS, **how)


def assert_equal_outputs(policy, other, observation, atol=0.0, **how):
    inputs, same = policy.prepare(observation), other.prepare(observation)
    for name, array in inputs.items():
        np.testing.assert_array_equal(array, same[name], err_msg=name)
    out, again = outputs(policy, observation, **how), outputs(other, observation, **how)
    np.testing.assert_array_equal(out.actions, again.actions)
    for name in ("logprobs", "values"):
        torch.testing.assert_close(vars(out)[name], vars(again)[name], rtol=0, atol=atol)


def shaken_adapters(policy):
    with torch.no_grad():
        for name, parameter in policy.named_parameters():
            if ".lora_B." in name or (".scale." in name or ".shift." in name):
                parameter.normal_(std=0.05)
    return policy


# -- round trips ----------------------------------------------------------------------------------


@pytest.mark.parametrize("fitted", [False, True])
def test_statistics_of_a_fresh_policy_have_the_name_of_the_recipe(
    env_spec, demonstrate, tmp_path, fitted
):
    """So that what is saved loads under the same settings."""
    config = settings(unnorm_key="bridge_orig")
    policy = made(config, env_spec)
    if fitted:
        policy.fit_normalizer([demonstrate(env_spec, 20)])
    policy.save_pretrained(tmp_path)
    again = made(at(config, tmp_path), env_spec, seed=1)
    assert again.processor.scaling.key == policy.processor.scaling.key == "bridge_orig"
    np.testing.assert_array_equal(
        again.processor.scaling.action.low, policy.processor.scaling.action.low
    )


def test_the_folder_holds_all_a_load_needs(saved):
    _, folder = saved
    assert sorted(p.name for p in folder.iterdir()) == [
        "config.json",
        "dataset_statistics.json",
        "model.safetensors",
        "preprocessor_config.json",
        "rl_heads.safetensors",
        "tokenizer.json",
    ]
    stored = {n: h.shape for n, h in read_headers(folder / "model.safetensors").items()}
    assert stored == network_shapes(SIZES["tiny"])  # the original names and nothing else
    content = json.loads((folder / "config.json").read_text())
    assert content["model_type"] == "openvla" and content["text_config"]["vocab_size"] == 656
    assert content["rlcore"]["model"]["model_path"] is None
    assert set(content["norm_stats"]) == {"fake"}


def test_round_trip_is_bitwise(saved, env_spec, observe):
    policy, folder = saved
    other = made(at(settings(), folder), env_spec, seed=1)
    observation = observe(env_spec, 3)
    observation["task_descriptions"][0] = "a sentence nobody saw"
    assert_equal_outputs(policy, other, observation)
    assert not any(p.is_meta for p in [*other.parameters(), *other.buffers()])


def test_round_trip_in_shards(env_spec, observe, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "SHARD_BYTES", 500_000)
    policy = made(settings(), env_spec)
    policy.save_pretrained(tmp_path)
    names = sorted(p.name for p in tmp_path.glob("model*"))
    assert names[0] == f"model-00001-of-{len(names) - 1:05d}.safetensors" and len(names) > 3
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert index["weight_map"].keys() == network_shapes(SIZES["tiny"]).keys()
    assert_equal_outputs(policy, made(at(settings(), tmp_path), env_spec, 1), observe(env_spec, 3))


@pytest.mark.parametrize(
    ("changes", "components"),
    [
        ({**OFFICIAL, "use_film": True}, ["proprio_projector", "vision_backbone"]),
        ({"size": "tiny_published"}, []),
    ],
)
def test_round_trip_of_other_layouts(env_spec, observe, tmp_path, changes, components):
    """The network's own file is that of a policy without FiLM."""
    config = settings(**changes)
    policy = shaken_adapters(made(config, env_spec))
    policy.save_pretrained(tmp_path)
    assert sorted(path.name for path in tmp_path.glob("*checkpoint*")) == [
        f"{name}--rlcore_checkpoint.safetensors" for name in components
    ]
    assert_equal_outputs(policy, made(at(config, tmp_path), env_spec, 1), observe(env_spec, 3))
    stored = read_headers(tmp_path / "model.safetensors")
    assert stored.keys() == network_shapes(SIZES[config.size]).keys()


def test_merged_adapters_are_saved_shard_by_shard(saved, env_spec, observe, tmp_path, monkeypatch):
    """What is merged at a time is what the next file holds: a second copy of a large network would
    not fit beside the first."""
    from peft.tuners.lora import Linear

    _, base = saved
    policy = shaken_adapters(made(at(settings(is_lora=True, lora_rank=4), base), env_spec))
    merge, write = Linear.get_delta_weight, checkpoint.write_weights
    done, before_file = [], []

    def counted(layer, adapter):
        done.append(layer)
        return merge(layer, adapter)

    def noted(path, tensors):
        before_file.append(len(done))
        write(path, tensors)

    monkeypatch.setattr(checkpoint, "SHARD_BYTES", 300_000)
    monkeypatch.setattr(Linear, "get_delta_weight", counted)
    monkeypatch.setattr(checkpoint, "write_weights", noted)
    checkpoint.save_network(policy.actor, tmp_path / "whole")
    assert len(before_file) > 3 and before_file[0] < before_file[-1] / 2
    monkeypatch.setattr(checkpoint, "write_weights", write)
    policy.save_pretrained(tmp_path / "whole")
    other = made(at(settings(), tmp_path / "whole"), env_spec)
    assert_equal_outputs(policy, other, observe(env_spec, 3), atol=1e-5)


@pytest.mark.quick(1)
@pytest.mark.parametrize("official", [{}, {**OFFICIAL, "use_film": True}])
def test_saved_adapters_find_their_base_and_are_trained_on_or_merged(
    env_spec, observe, tmp_path, official
):
    made(settings(**official), env_spec).save_pretrained(tmp_path / "base")
    lora = settings(**LORA, **official)
    policy = shaken_adapters(made(at(lora, tmp_path / "base"), env_spec, 1))
    policy.save_pretrained(tmp_path / "adapters")
    assert not (tmp_path / "adapters" / "model.safetensors").exists()
    names = read_headers(tmp_path / "adapters" / "adapter_model.safetensors")
    assert all(n.startswith("base_model.model.") and ".default" not in n for n in names)
    observation = observe(env_spec, 3)
    again = made(at(lora, tmp_path / "adapters"), env_spec, 2)
    assert_equal_outputs(policy, again, observation)
    merged = made(at(settings(**official), tmp_path / "adapters"), env_spec, 3)
    assert_equal_outputs(policy, merged, observation, atol=1e-5)
    again.save_pretrained(tmp_path / "later")  # a checkpoint of a checkpoint
    later = made(at(lora, tmp_path / "later"), env_spec, 4)
    assert_equal_outputs(policy, later, observation)


@pytest.mark.quick(1)
@pytest.mark.parametrize("alpha", [2, 0.5])
def test_adapters_of_another_alpha(saved, adapters, env_spec, observe, tmp_path, edit, alpha):
    """As adapters of the original trainer, whose alpha is not the rank (here 4): what is added is
    alpha / r B A, merged or trained on, and alpha is kept."""
    path = adapters / "adapter_config.json"
    content = json.loads(path.read_text())
    assert content["lora_alpha"] == content["r"] == 4
    edit(path, {"lora_alpha": alpha, "lora_dropout": 0.1})
    trained = made(at(settings(**LORA), adapters), env_spec)
    merged = made(at(settings(), adapters), env_spec)
    name = "language_model.model.layers.0.mlp.up_proj"
    stored = load_file(adapters / "adapter_model.safetensors")
    a, b = (stored[f"base_model.model.{name}.lora_{x}.weight"] for x in "AB")
    expected = load_file(saved[1] / "model.safetensors")[f"{name}.weight"] + alpha / 4 * b @ a
    weight = merged.actor.network.get_parameter(f"{name}.weight")
    torch.testing.assert_close(weight, expected, rtol=0, atol=1e-6)
    assert_equal_outputs(trained, merged, observe(env_spec, 3), atol=1e-5)
    trained.save_pretrained(tmp_path / "later")
    kept = json.loads((tmp_path / "later" / "adapter_config.json").read_text())
    assert (kept["r"], kept["lora_alpha"]) == (4, alpha)


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"use_dora": True}, ["use_dora=True"]),
        ({"lora_bias": True}, ["lora_bias=True"]),
        ({"bias": "lora_only"}, ["bias='lora_only'"]),
        ({"trainable_token_indices": [3]}, ["trainable_token_indices=[3]"]),
        ({"peft_type": "LOHA"}, ["peft_type='LOHA'"]),
        ({"peft_type": None}, ["peft_type"]),
        ({"init_lora_weights": "pissa"}, ["init_lora_weights='pissa'"]),
        ({"rank_pattern": {"q_proj": 8}}, ["q_proj.lora_A.weight", "[4, 80]", "[8, 80]"]),
        ({"rank_pattern": {"q_proj": 0}}, ["rank_pattern", "{'q_proj': 0}"]),
        ({"alpha_pattern": {"(": 8}}, ["'('"]),
        ({"something_new": 3}, ["something_new=3"]),
        ({"lora_alpha": None}, ["lora_alpha"]),
        ({"r": 0}, ["rank r"]),
    ],
)
def test_adapters_of_an_unknown_kind_are_refused(adapters, edit, refuse, changes, words):
    edit(adapters / "adapter_config.json", changes)
    refuse(at(settings(), adapters), *words)


def test_statistics_fitted_since_lie_beside_the_adapters(adapters, env_spec):
    file = adapters / "dataset_statistics.json"
    found = json.loads(file.read_text())
    (key,) = found
    found[key]["action"]["q99"] = [0.5] * len(found[key]["action"]["q99"])
    file.write_text(json.dumps(found))
    again = made(at(settings(**LORA), adapters), env_spec)
    assert again.processor.scaling.action.high.tolist() == found[key]["action"]["q99"]


def test_adapters_of_a_bf16_model_are_trained_in_fp32(env_spec):
    policy = made(settings(is_lora=True, lora_rank=4, precision="bf16"), env_spec)
    kinds = {(".lora_" in name, p.dtype) for name, p in policy.actor.network.named_parameters()}
    assert kinds == {(True, torch.float32), (False, torch.bfloat16)}


def test_files_of_the_original_trainer(env_spec, observe, tmp_path):
    """Pickled by torch, names with `module.`, and adapters unmerged, with alpha = min(r, 16)."""
    config = settings(**OFFICIAL, use_film=True)
    policy = made(config, env_spec)
    policy.save_pretrained(tmp_path)
    (path,) = tmp_path.glob("proprio_projector*")
    state = {f"module.{name}": tensor for name, tensor in tensors(path).items()}
    torch.save(state, tmp_path / "proprio_projector--100_checkpoint.pt")
    path.unlink()
    (path,) = tmp_path.glob("vision_backbone*")
    state = tensors(path)
    name = "vision_backbone.featurizer.blocks.0.block.attn.qkv"
    rank, (outputs_, inputs_) = 32, state[f"{name}.weight"].shape
    a, b = torch.randn(rank, inputs_) * 0.1, torch.randn(outputs_, rank) * 0.1
    state[f"{name}.base_layer.weight"] = state.pop(f"{name}.weight") - 0.5 * b @ a  # 16 / 32
    state[f"{name}.base_layer.bias"] = state.pop(f"{name}.bias")
    state[f"{name}.lora_A.default.weight"] = a
    state[f"{name}.lora_B.default.weight"] = b
    torch.save(state, tmp_path / "vision_backbone--100_checkpoint.pt")
    path.unlink()
    other = made(at(config, tmp_path), env_spec, 1)
    assert_equal_outputs(policy, other, observe(env_spec, 3), atol=1e-4, deterministic=True)


def test_a_critic_can_be_added(env_spec, observe, tmp_path, caplog):
    made(settings(add_value_head=False), env_spec).save_pretrained(tmp_path)
    assert not (tmp_path / "rl_heads.safetensors").exists()
    with caplog.at_level(logging.INFO):
        other = made(at(settings(), tmp_path), env_spec)
    assert "critic" in caplog.text
    assert outputs(other, observe(env_spec, 3)).values.shape == (3, 1)


def test_a_critic_beside_the_network_is_read(saved, env_spec, observe, refuse):
    """As RLinf's checkpoints have it."""
    policy, folder = saved
    whole = load_file(folder / "model.safetensors") | load_file(folder / "rl_heads.safetensors")
    save_file(whole, folder / "model.safetensors")
    refuse(at(settings(), folder), "rl_heads.safetensors")
    (folder / "rl_heads.safetensors").unlink()
    assert_equal_outputs(policy, made(at(settings(), folder), env_spec, 1), observe(env_spec, 3))


def test_pixels_are_scaled_as_the_checkpoint_says(saved, env_spec, edit):
    """Its rounded numbers, where it has both."""
    _, folder = saved
    pixels = [{"mean": [0.25] * 3, "std": [0.5] * 3}] * 2
    edit(folder / "preprocessor_config.json", {"tvf_normalize_params": pixels})
    network = made(at(settings(), folder), env_spec).actor.network
    image = torch.full((1, 1, 64, 64, 3), 255, dtype=torch.uint8)
    assert torch.equal(network.normalized(image), torch.full((1, 1, 6, 64, 64), 1.5))


# -- faults ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "model.safetensors", "tokenizer.json"])
def test_missing_files_are_refused(saved, refuse, name):
    _, folder = saved
    if name:
        (folder / name).unlink()
    else:
        shutil.rmtree(folder)
    refuse(at(settings(), folder), name or folder)


def test_missing_statistics_are_refused(saved, env_spec, refuse):
    _, folder = saved
    (folder / "dataset_statistics.json").unlink()
    policy_spec(at(settings(), folder), env_spec)  # config.json holds them too
    (folder / "config.json").write_text("{}")
    refuse(at(settings(), folder), "dataset_statistics.json")


def test_weights_of_another_vocabulary_are_refused(saved, refuse):
    _, folder = saved
    weights = load_file(folder / "model.safetensors")
    for name in ("model.embed_tokens", "lm_head"):
        weights[f"language_model.{name}.weight"] = torch.zeros(700, 80)
    save_file(weights, folder / "model.safetensors")
    refuse(at(settings(), folder), "lm_head.weight", "[700, 80]", "[656, 80]")


def test_another_tokenizer_is_refused(saved, refuse):
    _, folder = saved
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["model"]["vocab"] |= {f"word{n}": 1000 + n for n in range(500)}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    refuse(at(settings(), folder), "tokenizer.json", "640")


def test_another_size_is_refused(saved, refuse):
    _, folder = saved
    config = at(settings(size="tiny_published"), folder)
    refuse(config, "width 80", "64")
    (folder / "config.json").unlink()  # then the weights themselves tell
    refuse(config, "[656, 80]", "actor.model.size")


def test_an_absent_unnorm_key_lists_those_there_are(saved, env_spec, refuse):
    _, folder = saved
    path = folder / "dataset_statistics.json"
    one = json.loads(path.read_text())["fake"]
    path.write_text(json.dumps({"libero_10_no_noops": one, "bridge_orig": one}))
    (folder / "config.json").write_text("{}")
    known = "bridge_orig, libero_10_no_noops"
    refuse(at(settings(unnorm_key="fractal"), folder), "'fractal'", known)
    refuse(at(settings(), folder), "unnorm_key", known)
    policy = made(at(settings(unnorm_key="libero_10"), folder), env_spec)
    assert policy.processor.scaling.key == "libero_10_no_noops"


def test_the_data_set_of_a_fine_tune_is_the_one_that_its_trainer_wrote(
    saved, env_spec, tmp_path, refuse
):
    """`config.json` has those of the model that it began with. Once saved, all stand together."""
    _, folder = saved
    path = folder / "dataset_statistics.json"
    one = json.loads(path.read_text())["fake"]
    path.write_text(json.dumps({"libero_130_no_noops_trajall": one}))
    base = {"norm_stats": {"bridge_orig": one, "fractal": one}}
    (folder / "config.json").write_text(json.dumps(base))
    policy = made(at(settings(unnorm_key=None), folder), env_spec)
    assert policy.processor.scaling.key == "libero_130_no_noops_trajall"
    policy.save_pretrained(tmp_path / "again")
    assert len(json.loads((tmp_path / "again" / path.name).read_text())) == 3
    again = made(at(settings(unnorm_key=None), tmp_path / "again"), env_spec)
    assert again.processor.scaling.key == "libero_130_no_noops_trajall"
    refuse(
        at(settings(unnorm_key="libero_130"), folder),
        "actor.model.unnorm_key=libero_130_no_noops_trajall",
    )


def test_another_robot_is_refused(saved, other_env, refuse):
    _, folder = saved
    refuse(at(settings(), folder), "'action'", "'fake'", "6", env=other_env(action=6))


def test_another_critic_is_refused(saved, refuse):
    _, folder = saved
    refuse(at(settings(critic_hidden=[32]), folder), "rl_heads.safetensors")


def tensors(path) -> dict[str, torch.Tensor]:
    """Of a component, by their names in the policy."""
    stored = stored_file(path)
    return dict(read_stored(stored, stored.headers, scale=full_scale))


UNSIGNED = {"rlcore": None}
"""As others publish config.json: without our record of the settings."""


@pytest.mark.parametrize(
    "changes",
    [
        {"num_action_chunks": 3},
        {"implement_version": "official"},
        {"implement_version": "official", "use_film": True},
        OFFICIAL,
        {"num_images_in_input": 2},
        {"action_norm": "bounds"},
    ],
)
def test_settings_that_it_was_not_trained_with_are_refused(saved, other_env, changes, refuse):
    _, folder = saved
    changed = [name for name in changes if name != "proprio_dim"]
    refuse(at(settings(**changes), folder), *changed, env=other_env(cameras=2))


@pytest.mark.parametrize("proprio", [True, False])
@pytest.mark.parametrize("key", ["libero_10_no_noops", "somebodys"])
def test_the_state_of_liberos_data_sets_is_known(env_spec, demonstrate, tmp_path, key, proprio):
    """It has eight entries, as other envs have that mean something else."""
    config = settings(**(OFFICIAL if proprio else {}), unnorm_key=key)
    policy = made(config, env_spec)
    policy.fit_normalizer([demonstrate(env_spec, 20)])
    policy.save_pretrained(tmp_path)
    spec = policy_spec(at(config, tmp_path), env_spec)
    libero = [("ee_position", 3), ("ee_axis_angle", 3), ("gripper_finger_positions", 2)]
    expected = libero if proprio and key.startswith("libero") else []
    assert [(state.meaning, state.size) for state in spec.states] == expected


def test_a_trained_part_that_is_not_asked_for_is_refused(env_spec, tmp_path, refuse, edit):
    made(settings(**OFFICIAL), env_spec).save_pretrained(tmp_path)
    official = at(settings(implement_version="official"), tmp_path)
    refuse(official, "use_proprio")
    config = at(settings(**{**OFFICIAL, "proprio_dim": 5}), tmp_path)
    refuse(config, "proprio_dim", "4", "5", env=replace(env_spec, states=(StateChannel("arm", 5),)))
    edit(tmp_path / "config.json", UNSIGNED)
    left = "proprio_projector--rlcore_checkpoint.safetensors"
    refuse(official, left, "use_proprio=false")
    refuse(at(settings(), tmp_path), left, "use_proprio=false")
    made(at(settings(**OFFICIAL), tmp_path), env_spec)
    # or beside the network, as trainers put them that save the whole policy
    path = tmp_path / "proprio_projector--rlcore_checkpoint.safetensors"
    whole = {f"proprio_projector.{name}": tensor for name, tensor in tensors(path).items()}
    save_file(load_file(tmp_path / "model.safetensors") | whole, tmp_path / "model.safetensors")
    path.unlink()
    refuse(official, "proprio_projector.fc1", "use_proprio=false")


@pytest.mark.parametrize(
    ("key", "file"), [("use_film", "vision_backbone--"), ("use_l1_regression", "action_head--")]
)
def test_parts_that_would_go_unread_are_refused(env_spec, tmp_path, key, file, refuse, edit):
    official = {"implement_version": "official"}
    made(settings(**official, **{key: True}), env_spec).save_pretrained(tmp_path)
    refuse(at(settings(**official), tmp_path), key)
    edit(tmp_path / "config.json", UNSIGNED)
    refuse(at(settings(**official), tmp_path), file, f"{key}=false")


def test_a_checkpoint_of_another_model_is_refused(saved, refuse, edit):
    _, folder = saved
    record = json.loads((folder / "config.json").read_text())["rlcore"]
    record["model"]["model_type"] = "openvla"
    edit(folder / "config.json", {"rlcore": record})
    refuse(at(settings(), folder), "'openvla'")


def test_more_images_than_the_env_has_are_refused(saved, refuse):
    _, folder = saved
    config = at(settings(num_images_in_input=2), folder)
    refuse(config, "num_images_in_input", "1..1", kind=ConfigError)


def test_missing_and_damaged_components_are_refused(saved, refuse, edit):
    _, folder = saved
    edit(folder / "config.json", UNSIGNED)
    config = at(settings(**OFFICIAL), folder)
    refuse(config, "proprio_projector--")
    steps = [folder / f"proprio_projector--{step}_checkpoint.pt" for step in (1, 2)]
    for step in steps:
        step.touch()
    refuse(config, *(step.name for step in steps))
    steps[1].unlink()
    path = folder / "proprio_projector--1_checkpoint.pt"
    path.write_bytes(b"no archive")
    refuse(config, "proprio_projector--1_checkpoint.pt", text=False)  # with zipfile's own words
    path.unlink()
    save_file({"fc1.weight": torch.zeros(80, 9)}, path.with_suffix(".safetensors"))
    refuse(config, "fc1.weight", "[80, 9]", "[80, 4]")


def test_adapters_of_another_rank_or_without_their_base_are_refused(saved, adapters, refuse):
    _, base = saved
    config = at(settings(**{**LORA, "lora_rank": 8}), adapters)
    refuse(config, "rank 4", "actor.model.lora_rank")
    shutil.rmtree(base)
    refuse(at(settings(**LORA), adapters), base)


RESIZE = {"antialias": True, "interpolation": 3, "max_size": None, "size": [64, 64]}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("image_resize_strategy", "letterbox"),
        ("tvf_do_letterbox", True),
        ("tvf_do_letterbox", [True, False]),
        ("interpolations", ["bicubic", "bilinear"]),
        ("input_sizes", [[3, 128, 128]] * 2),
        ("tvf_resize_params", [{**RESIZE, "interpolation": 2}] * 2),
        ("tvf_crop_params", [{"output_size": [32, 32]}] * 2),
        ("image_processor_type", "SiglipImageProcessor"),
        ("do_convert_rgb", True),
    ],
)
def test_images_prepared_in_an_unknown_way_are_refused(saved, refuse, edit, key, value):
    _, folder = saved
    edit(folder / "preprocessor_config.json", {key: value})
    refuse(at(settings(), folder), key, repr(value))


def test_images_as_published_files_describe_them(saved, env_spec, edit):
    """The settings of openvla-7b's file, at this size."""
    _, folder = saved
    pixels = {"inplace": False, "mean": [0.5] * 3, "std": [0.5] * 3}
    published = {
        "auto_map": {"AutoImageProcessor": "processing_prismatic.PrismaticImageProcessor"},
        "processor_class": "PrismaticProcessor",
        "tvf_crop_params": [{"output_size": [64, 64]}] * 2,
        "tvf_do_letterbox": False,
        "tvf_letterbox_fill": None,
        "tvf_normalize_params": [pixels] * 2,
        "tvf_resize_params": [RESIZE] * 2,
    }
    edit(folder / "preprocessor_config.json", published)
    policy_spec(at(settings(), folder), env_spec)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("image_resize_strategy", "letterbox"),
        ("timm_override_act_layers", ["quick_gelu", None]),
        ("timm_model_ids", ["vit_base_patch16", "vit_base_patch16"]),
        ("n_action_bins", 128),
        ("pad_to_multiple_of", 32),
    ],
)
def test_settings_of_another_network_are_refused(saved, refuse, edit, key, value):
    _, folder = saved
    edit(folder / "config.json", {key: value})
    refuse(at(settings(), folder), key)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rms_norm_eps", 1e-5),
        ("rope_theta", 5e5),
        ("rope_scaling", {"type": "linear", "factor": 2.0}),
        ("hidden_act", "gelu"),
    ],
)
def test_settings_of_another_llama_are_refused(saved, refuse, edit, key, value):
    _, folder = saved
    llama = json.loads((folder / "config.json").read_text())["text_config"]
    edit(folder / "config.json", {"text_config": {**llama, key: value}})
    refuse(at(settings(), folder), key)


@pytest.mark.parametrize("film", [True, False])
def test_a_whole_policy_in_the_networks_files(env_spec, observe, tmp_path, film):
    """With FiLM its towers stand there in the place of the network's own."""
    config = settings(**{**OFFICIAL, "use_film": film})
    policy = made(config, env_spec)
    policy.save_pretrained(tmp_path)
    whole = load_file(tmp_path / "model.safetensors")
    (path,) = tmp_path.glob("proprio_projector*")
    whole |= {f"proprio_projector.{name}": tensor for name, tensor in tensors(path).items()}
    path.unlink()
    if film:
        (path,) = tmp_path.glob("vision_backbone*")
        whole = {n: t for n, t in whole.items() if not n.startswith("vision_backbone.")}
        whole |= {f"vision_backbone.{name}": tensor for name, tensor in tensors(path).items()}
        path.unlink()
    save_file(whole, tmp_path / "model.safetensors")
    other = made(at(config, tmp_path), env_spec, 1)
    assert_equal_outputs(policy, other, observe(env_spec, 3), deterministic=True)


def test_adapters_of_some_modules_are_merged(saved, adapters, env_spec, refuse):
    """As those of the original trainer, which adapts neither convolutions nor the output layer:
    what has none stays as it was, also in training. Half an adapter is refused."""
    _, base = saved
    folder = adapters
    lora = settings(**LORA)
    file = folder / "adapter_model.safetensors"
    some = {n: t for n, t in load_file(file).items() if ".lm_head." not in n and ".convs" not in n}
    shutil.copy(file, file.with_name("whole"))
    save_file(some, file)
    merged = made(at(settings(), folder), env_spec).actor.network
    plain = made(at(settings(), base), env_spec).actor.network
    assert torch.equal(merged.language_model.lm_head.weight, plain.language_model.lm_head.weight)
    adapted = "language_model.model.layers.0.self_attn.q_proj.weight"
    assert not torch.equal(merged.get_parameter(adapted), plain.get_parameter(adapted))
    trained = made(at(lora, folder), env_spec)
    adapted = {
        name.partition(".lora_")[0] for name, _ in trained.named_parameters() if ".lora_" in name
    }
    assert adapted == {f"actor.network.{n[17:].partition('.lora_')[0]}" for n in some}
    whole = made(at(lora, base), env_spec).spec
    lost = sum(t.numel() for n, t in load_file(file.with_name("whole")).items() if n not in some)
    assert trained.spec.trainable_parameters == whole.trainable_parameters - lost
    del some[next(name for name in some if ".lora_B." in name)]
    save_file(some, file)
    refuse(at(settings(), folder), "missing (1)")
    save_file({}, file)
    refuse(at(settings(), folder), folder)


@pytest.mark.parametrize(
    ("file", "changes"),
    [
        ("preprocessor_config.json", {"tvf_normalize_params": "abc"}),
        ("preprocessor_config.json", {"tvf_normalize_params": [1, 2]}),
        ("preprocessor_config.json", {"tvf_normalize_params": {"mean": 1}}),
        ("preprocessor_config.json", {"means": 3}),
        ("preprocessor_config.json", {"stds": [[0.0] * 3] * 2}),
        ("preprocessor_config.json", {"stds": [[float("nan")] * 3] * 2}),
        ("config.json", {"norm_stats": [1, 2]}),
        ("config.json", {"norm_stats": 5}),
        ("config.json", {"norm_stats": "abc"}),
    ],
)
def test_damaged_settings_are_refused(saved, refuse, edit, file, changes):
    _, folder = saved
    edit(folder / file, changes)
    refuse(at(settings(), folder), file)


def test_other_statistics_of_a_checkpoint_survive_a_fit(
    saved, env_spec, demonstrate, tmp_path, edit
):
    """The key that `unnorm_key` came to is fitted again, with its mask; the others stay."""
    _, folder = saved
    path = folder / "dataset_statistics.json"
    (entry,) = json.loads(path.read_text()).values()
    entry["action"]["mask"][-1] = False
    path.write_text(json.dumps({"bridge": entry, "libero_no_noops": entry}))
    edit(folder / "config.json", {"norm_stats": None})
    policy = made(at(settings(unnorm_key="libero"), folder), env_spec)
    policy.fit_normalizer([demonstrate(env_spec, 15)])
    policy.save_pretrained(tmp_path / "after")
    found = json.loads((tmp_path / "after" / "dataset_statistics.json").read_text())
    assert found.keys() == {"bridge", "libero_no_noops"} and found["bridge"] == entry
    fitted = found["libero_no_noops"]["action"]
    assert fitted["q01"] != entry["action"]["q01"] and fitted["mask"] == entry["action"]["mask"]
