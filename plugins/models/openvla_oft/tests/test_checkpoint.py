"""Checkpoint folders: equal after a round trip, and one clear error for each fault."""

from __future__ import annotations

import json
import logging
import re
import shutil
from dataclasses import fields, replace

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

from rlcore.contracts.errors import CheckpointError, ConfigError, UserError
from rlcore.contracts.rng import RowKeys
from rlcore.contracts.specs import StateChannel

KEYS = RowKeys(tuple((1, row) for row in range(3)))
OFFICIAL = {"implement_version": "official", "use_proprio": True, "proprio_dim": 4}


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
def test_a_fresh_policy_with_a_name_of_statistics(env_spec, demonstrate, tmp_path, fitted):
    """Recipes name the statistics of the checkpoint that they are for; without one the policy's
    own have that name, so that what is saved loads under the same settings."""
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


def test_round_trip_with_all_components(env_spec, observe, tmp_path):
    config = settings(**OFFICIAL, use_film=True)
    policy = made(config, env_spec)
    with torch.no_grad():
        for name, parameter in policy.named_parameters():
            if ".scale." in name or ".shift." in name:
                parameter.normal_(std=0.1)
    policy.save_pretrained(tmp_path)
    assert sorted(p.name for p in tmp_path.glob("*checkpoint*")) == [
        "proprio_projector--rlcore_checkpoint.safetensors",
        "vision_backbone--rlcore_checkpoint.safetensors",
    ]
    assert_equal_outputs(policy, made(at(config, tmp_path), env_spec, 1), observe(env_spec, 3))
    # the network's own file is that of a policy without FiLM
    assert (
        read_headers(tmp_path / "model.safetensors").keys() == network_shapes(SIZES["tiny"]).keys()
    )


def test_round_trip_of_the_published_layout(env_spec, observe, tmp_path):
    config = settings(size="tiny_published", critic_hidden=[8])
    policy = made(config, env_spec)
    policy.save_pretrained(tmp_path)
    assert (
        read_headers(tmp_path / "model.safetensors").keys()
        == network_shapes(SIZES["tiny_published"]).keys()
    )
    assert_equal_outputs(policy, made(at(config, tmp_path), env_spec, 1), observe(env_spec, 3))


def test_adapters_are_merged(saved, env_spec, observe, tmp_path):
    _, base = saved
    config = at(settings(is_lora=True, lora_rank=4), base)
    policy = shaken_adapters(made(config, env_spec))
    policy.save_pretrained(tmp_path)
    other = made(at(settings(), tmp_path), env_spec)
    assert_equal_outputs(policy, other, observe(env_spec, 3), atol=1e-5)


def test_adapters_are_merged_shard_by_shard(saved, env_spec, observe, tmp_path, monkeypatch):
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
def test_adapters_alone(env_spec, observe, tmp_path, official):
    """They find their model again, and are trained on, or merged."""
    made(settings(**official), env_spec).save_pretrained(tmp_path / "base")
    lora = settings(is_lora=True, lora_rank=4, save_adapters_only=True, **official)
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
def test_adapters_of_another_alpha(saved, env_spec, observe, tmp_path, alpha):
    """As adapters of the original trainer, whose alpha is not the rank (here 4): what is added is
    alpha / r B A, merged or trained on, and alpha is kept."""
    _, base = saved
    lora = settings(is_lora=True, lora_rank=4, save_adapters_only=True)
    folder = tmp_path / "adapters"
    shaken_adapters(made(at(lora, base), env_spec)).save_pretrained(folder)
    path = folder / "adapter_config.json"
    content = json.loads(path.read_text())
    assert content["lora_alpha"] == content["r"] == 4
    path.write_text(json.dumps({**content, "lora_alpha": alpha, "lora_dropout": 0.1}))
    trained = made(at(lora, folder), env_spec)
    merged = made(at(settings(), folder), env_spec)
    name = "language_model.model.layers.0.mlp.up_proj"
    adapters = load_file(folder / "adapter_model.safetensors")
    a, b = (adapters[f"base_model.model.{name}.lora_{x}.weight"] for x in "AB")
    expected = load_file(base / "model.safetensors")[f"{name}.weight"] + alpha / 4 * b @ a
    weight = merged.actor.network.get_parameter(f"{name}.weight")
    torch.testing.assert_close(weight, expected, rtol=0, atol=1e-6)
    assert_equal_outputs(trained, merged, observe(env_spec, 3), atol=1e-5)
    trained.save_pretrained(tmp_path / "later")
    kept = json.loads((tmp_path / "later" / "adapter_config.json").read_text())
    assert (kept["r"], kept["lora_alpha"]) == (4, alpha)


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"use_dora": True}, "does not describe plain LoRA adapters: use_dora=True"),
        ({"lora_bias": True}, "lora_bias=True"),
        ({"bias": "lora_only"}, "bias='lora_only'"),
        ({"trainable_token_indices": [3]}, r"trainable_token_indices=\[3\]"),
        ({"peft_type": "LOHA"}, "peft_type='LOHA'"),
        ({"peft_type": None}, "it has no peft_type"),
        ({"init_lora_weights": "pissa"}, "init_lora_weights='pissa'"),
        ({"rank_pattern": {"q_proj": 8}}, r"q_proj.lora_A.weight is \[4, 80\], .* is \[8, 80\]"),
        ({"rank_pattern": {"q_proj": 0}}, "damaged .*rank_pattern is {'q_proj': 0}"),
        ({"alpha_pattern": {"(": 8}}, "damaged .*'\\(' is no pattern"),
        ({"something_new": 3}, "something_new=3"),
        ({"lora_alpha": None}, "damaged .*lora_alpha is None"),
        ({"r": 0}, "damaged .*rank r is 0"),
    ],
)
def test_adapters_of_an_unknown_kind(saved, env_spec, tmp_path, changes, match):
    _, base = saved
    lora = settings(is_lora=True, lora_rank=4, save_adapters_only=True)
    made(at(lora, base), env_spec).save_pretrained(tmp_path / "adapters")
    path = tmp_path / "adapters" / "adapter_config.json"
    content = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({n: v for n, v in content.items() if v is not None}))
    refuse(at(settings(), tmp_path / "adapters"), env_spec, match)


def test_statistics_fitted_since_lie_beside_the_adapters(env_spec, tmp_path):
    made(settings(), env_spec).save_pretrained(tmp_path / "base")
    lora = settings(is_lora=True, lora_rank=4, save_adapters_only=True)
    made(at(lora, tmp_path / "base"), env_spec).save_pretrained(tmp_path / "adapters")
    file = tmp_path / "adapters" / "dataset_statistics.json"
    found = json.loads(file.read_text())
    (key,) = found
    found[key]["action"]["q99"] = [0.5] * len(found[key]["action"]["q99"])
    file.write_text(json.dumps(found))
    again = made(at(lora, tmp_path / "adapters"), env_spec)
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
    assert "starting with fresh weights" in caplog.text
    assert outputs(other, observe(env_spec, 3)).values.shape == (3, 1)


def test_a_critic_beside_the_network_is_read(saved, env_spec, observe):
    """As RLinf's checkpoints have it."""
    policy, folder = saved
    whole = load_file(folder / "model.safetensors") | load_file(folder / "rl_heads.safetensors")
    save_file(whole, folder / "model.safetensors")
    refuse(at(settings(), folder), env_spec, "rl_heads.safetensors holds another")
    (folder / "rl_heads.safetensors").unlink()
    assert_equal_outputs(policy, made(at(settings(), folder), env_spec, 1), observe(env_spec, 3))


def test_pixels_are_scaled_as_the_checkpoint_says(saved, env_spec):
    """Its rounded numbers, where it has both."""
    _, folder = saved
    path = folder / "preprocessor_config.json"
    content = json.loads(path.read_text())
    content["tvf_normalize_params"] = [{"mean": [0.25] * 3, "std": [0.5] * 3}] * 2
    path.write_text(json.dumps(content))
    network = made(at(settings(), folder), env_spec).actor.network
    image = torch.full((1, 1, 64, 64, 3), 255, dtype=torch.uint8)
    assert torch.equal(network.normalized(image), torch.full((1, 1, 6, 64, 64), 1.5))


# -- faults ---------------------------------------------------------------------------------------


def refuse(config, env_spec, match: str, kind: type[UserError] = CheckpointError) -> None:
    """The policy is not built, and its spec says so too: that is before any worker starts."""
    with pytest.raises(kind, match=match):
        policy_spec(config, env_spec)
    with pytest.raises(kind, match=match):
        make(config, env_spec=env_spec)


def test_no_folder(env_spec, tmp_path):
    refuse(at(settings(), tmp_path / "nowhere"), env_spec, "nowhere.* is not a folder")


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("model.safetensors", "has neither model.safetensors nor model.safetensors.index.json"),
        ("tokenizer.json", "has no tokenizer.json"),
    ],
)
def test_missing_files(saved, env_spec, name, match):
    _, folder = saved
    (folder / name).unlink()
    refuse(at(settings(), folder), env_spec, match)


def test_no_statistics(saved, env_spec):
    _, folder = saved
    (folder / "dataset_statistics.json").unlink()
    policy_spec(at(settings(), folder), env_spec)  # config.json holds them too
    (folder / "config.json").write_text("{}")
    refuse(at(settings(), folder), env_spec, "has no dataset_statistics.json")


@pytest.fixture
def sharded(env_spec, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "SHARD_BYTES", 500_000)
    made(settings(), env_spec).save_pretrained(tmp_path)
    return tmp_path


def test_a_missing_shard(sharded, env_spec):
    names = sorted(path.name for path in sharded.glob("model-*"))
    (sharded / names[1]).unlink()
    refuse(at(settings(), sharded), env_spec, f"lacks 1 of the {len(names)} shards .*{names[1]}")


@pytest.mark.parametrize("kept", [0.5, 1e-4, 0.0])  # within the tensors, the header, nothing
def test_a_truncated_shard(sharded, env_spec, kept):
    path = sorted(sharded.glob("model-*"))[1]
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * kept)])
    refuse(at(settings(), sharded), env_spec, f"{path.name} is damaged or incomplete")


def test_an_index_that_is_none(sharded, env_spec):
    (sharded / "model.safetensors.index.json").write_text('{"weight_map": 3}')
    refuse(at(settings(), sharded), env_spec, "index.json is damaged")


def test_shards_of_another_checkpoint(sharded, env_spec):
    first, second, *_ = sorted(sharded.glob("model-*"))
    shutil.copy(second, first)
    refuse(at(settings(), sharded), env_spec, f"{first.name} is damaged .*does not match the index")


def test_another_vocabulary(saved, env_spec):
    _, folder = saved
    weights = load_file(folder / "model.safetensors")
    for name in ("model.embed_tokens", "lm_head"):
        weights[f"language_model.{name}.weight"] = torch.zeros(700, 80)
    save_file(weights, folder / "model.safetensors")
    refuse(at(settings(), folder), env_spec, r"lm_head.weight is \[700, 80\], .*\[656, 80\]")


def test_another_tokenizer(saved, env_spec):
    _, folder = saved
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["model"]["vocab"] |= {f"word{n}": 1000 + n for n in range(500)}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    refuse(at(settings(), folder), env_spec, "tokenizer.json: the tokenizer has .* 640 tokens")


def test_another_size(saved, env_spec):
    _, folder = saved
    config = at(settings(size="tiny_published"), folder)
    refuse(config, env_spec, r"another network: .*width 80 \(got 64\)")
    (folder / "config.json").unlink()  # then the weights themselves tell
    refuse(config, env_spec, "does not fit the network")


def test_an_absent_unnorm_key_lists_those_there_are(saved, env_spec):
    _, folder = saved
    path = folder / "dataset_statistics.json"
    one = json.loads(path.read_text())["fake"]
    path.write_text(json.dumps({"libero_10_no_noops": one, "bridge_orig": one}))
    (folder / "config.json").write_text("{}")
    known = "bridge_orig, libero_10_no_noops"
    refuse(at(settings(unnorm_key="fractal"), folder), env_spec, f"'fractal'; .* for {known}")
    refuse(at(settings(), folder), env_spec, f"unnorm_key is null; .* for {known}")
    policy = made(at(settings(unnorm_key="libero_10"), folder), env_spec)
    assert policy.processor.scaling.key == "libero_10_no_noops"


def test_the_data_set_of_a_fine_tune_is_the_one_that_its_trainer_wrote(saved, env_spec, tmp_path):
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
    command = r"hint: set actor.model.unnorm_key=libero_130_no_noops_trajall$"
    refuse(at(settings(unnorm_key="libero_130"), folder), env_spec, command)


def test_another_robot(saved, other_env):
    _, folder = saved
    refuse(at(settings(), folder), other_env(action=6), "'action' of 'fake' must have 6 entries")


def test_another_critic(saved, env_spec):
    _, folder = saved
    refuse(at(settings(critic_hidden=[32]), folder), env_spec, "rl_heads.safetensors does not fit")


def tensors(path) -> dict[str, torch.Tensor]:
    """Of a component, by their names in the policy."""
    stored = stored_file(path)
    return dict(read_stored(stored, stored.headers, scale=full_scale))


def unsigned(folder) -> None:
    """As others publish it: without our record of the settings."""
    path = folder / "config.json"
    content = json.loads(path.read_text())
    del content["rlcore"]
    path.write_text(json.dumps(content))


OTHERWISE = [
    ({"num_action_chunks": 3}, "num_action_chunks must be 2, got 3"),
    ({"num_action_chunks": 1}, "num_action_chunks must be 2, got 1"),
    ({"implement_version": "official"}, "implement_version must be rlinf, got official"),
    ({"implement_version": "official", "use_film": True}, "use_film must be false, got true"),
    (OFFICIAL, "got official; actor.model.use_proprio must be false, got true"),
    ({"num_images_in_input": 2}, "num_images_in_input must be 1, got 2"),
    ({"action_norm": "bounds"}, "action_norm must be bounds_q99, got bounds"),
]


@pytest.mark.parametrize(("asked", "match"), OTHERWISE)
def test_what_it_was_not_trained_for(saved, other_env, asked, match):
    _, folder = saved
    refuse(
        at(settings(**asked), folder),
        other_env(cameras=2),
        f"was trained with other settings: .*{match}",
    )


@pytest.mark.parametrize("proprio", [True, False])
@pytest.mark.parametrize("key", ["libero_10_no_noops", "somebodys"])
def test_the_state_of_liberos_data_sets_is_known(env_spec, demonstrate, tmp_path, key, proprio):
    """It has eight entries, as other envs have that mean something else."""
    config = settings(**(OFFICIAL if proprio else {}), unnorm_key=key)
    policy = made(config, env_spec)
    policy.fit_normalizer([demonstrate(env_spec, 20)])
    policy.save_pretrained(tmp_path)
    states = [
        (each.meaning, each.size) for each in policy_spec(at(config, tmp_path), env_spec).states
    ]
    libero = [("ee_position", 3), ("ee_axis_angle", 3), ("gripper_finger_positions", 2)]
    assert states == (libero if proprio and key.startswith("libero") else [])


def test_a_part_that_was_trained_and_is_not_asked_for(env_spec, tmp_path):
    made(settings(**OFFICIAL), env_spec).save_pretrained(tmp_path)
    official = at(settings(implement_version="official"), tmp_path)
    refuse(official, env_spec, "use_proprio must be true, got false")
    config = at(settings(**{**OFFICIAL, "proprio_dim": 5}), tmp_path)
    refuse(
        config, replace(env_spec, states=(StateChannel("arm", 5),)), "proprio_dim must be 4, got 5"
    )
    unsigned(tmp_path)
    left = "holds proprio_projector--rlcore_checkpoint.safetensors, .*use_proprio=false ignores it"
    refuse(official, env_spec, left)
    refuse(at(settings(), tmp_path), env_spec, left)
    made(at(settings(**OFFICIAL), tmp_path), env_spec)
    # or beside the network, as trainers put them that save the whole policy
    path = tmp_path / "proprio_projector--rlcore_checkpoint.safetensors"
    whole = {f"proprio_projector.{name}": tensor for name, tensor in tensors(path).items()}
    save_file(load_file(tmp_path / "model.safetensors") | whole, tmp_path / "model.safetensors")
    path.unlink()
    refuse(official, env_spec, "holds proprio_projector.fc1.*use_proprio=false ignores it")


@pytest.mark.parametrize(
    ("extra", "match"),
    [
        ({"use_film": True}, "vision_backbone--.*use_film=false ignores it"),
        ({"use_l1_regression": True}, "action_head--.*use_l1_regression=false ignores it"),
    ],
)
def test_parts_that_would_go_unread(env_spec, tmp_path, extra, match):
    official = {"implement_version": "official"}
    made(settings(**official, **extra), env_spec).save_pretrained(tmp_path)
    refuse(at(settings(**official), tmp_path), env_spec, "was trained with other settings")
    unsigned(tmp_path)
    refuse(at(settings(**official), tmp_path), env_spec, match)


def test_a_checkpoint_of_another_model(saved, env_spec):
    _, folder = saved
    content = json.loads((folder / "config.json").read_text())
    content["rlcore"]["model"]["model_type"] = "openvla"
    (folder / "config.json").write_text(json.dumps(content))
    refuse(at(settings(), folder), env_spec, "a checkpoint of model 'openvla', not of")


def test_more_images_than_the_env_has(saved, env_spec):
    _, folder = saved
    config = at(settings(num_images_in_input=2), folder)
    refuse(config, env_spec, r"num_images_in_input must be in 1\.\.1, the cameras", ConfigError)


def test_missing_and_damaged_components(saved, env_spec):
    _, folder = saved
    unsigned(folder)
    config = at(settings(**OFFICIAL), folder)
    refuse(config, env_spec, "must hold one file proprio_projector--")
    steps = [folder / f"proprio_projector--{step}_checkpoint.pt" for step in (1, 2)]
    for step in steps:
        step.touch()
    with pytest.raises(CheckpointError, match=r"got .*--1_checkpoint\.pt, .*--2_") as caught:
        policy_spec(config, env_spec)
    assert "keep the file of the step" in caught.value.hint
    steps[1].unlink()
    path = folder / "proprio_projector--1_checkpoint.pt"
    path.write_bytes(b"no archive")
    refuse(config, env_spec, "proprio_projector--1_checkpoint.pt is damaged")
    path.unlink()
    save_file({"fc1.weight": torch.zeros(80, 9)}, path.with_suffix(".safetensors"))
    refuse(config, env_spec, r"fc1.weight is \[80, 9\], the network's is \[80, 4\]")


def test_adapters_of_another_rank(saved, env_spec, tmp_path):
    _, base = saved
    lora = settings(is_lora=True, lora_rank=4, save_adapters_only=True)
    made(at(lora, base), env_spec).save_pretrained(tmp_path / "adapters")
    config = at(replace(lora, lora_rank=8), tmp_path / "adapters")
    refuse(config, env_spec, "adapters of rank 4, actor.model.lora_rank is 8")
    shutil.rmtree(base)
    refuse(at(lora, tmp_path / "adapters"), env_spec, "which is not a folder")


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("image_resize_strategy", "letterbox"),
        ("tvf_do_letterbox", True),
        ("tvf_do_letterbox", [True, False]),
        ("interpolations", ["bicubic", "bilinear"]),
        ("input_sizes", [[3, 128, 128]] * 2),
        ("tvf_resize_params",
         [{"antialias": True, "interpolation": 2, "max_size": None, "size": [64, 64]}] * 2),
        ("tvf_crop_params", [{"output_size": [32, 32]}] * 2),
        ("image_processor_type", "SiglipImageProcessor"),
        ("do_convert_rgb", True),
    ],
)  # fmt: skip
def test_images_prepared_in_an_unknown_way(saved, env_spec, setting, value):
    _, folder = saved
    path = folder / "preprocessor_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), setting: value}))
    refuse(
        at(settings(), folder),
        env_spec,
        rf"{setting} in .* must be .*, got {re.escape(repr(value))}",
    )


def test_images_as_published_files_describe_them(saved, env_spec):
    """The settings of openvla-7b's file, at this size."""
    _, folder = saved
    path = folder / "preprocessor_config.json"
    resize = {"antialias": True, "interpolation": 3, "max_size": None, "size": [64, 64]}
    pixels = {"inplace": False, "mean": [0.5] * 3, "std": [0.5] * 3}
    published = {
        "auto_map": {"AutoImageProcessor": "processing_prismatic.PrismaticImageProcessor"},
        "processor_class": "PrismaticProcessor",
        "tvf_crop_params": [{"output_size": [64, 64]}] * 2,
        "tvf_do_letterbox": False,
        "tvf_letterbox_fill": None,
        "tvf_normalize_params": [pixels] * 2,
        "tvf_resize_params": [resize] * 2,
    }
    path.write_text(json.dumps({**json.loads(path.read_text()), **published}))
    policy_spec(at(settings(), folder), env_spec)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("image_resize_strategy", "letterbox"), ("timm_override_act_layers", ["quick_gelu", None]),
     ("timm_model_ids", ["vit_base_patch16", "vit_base_patch16"])],
)  # fmt: skip
def test_towers_that_read_images_otherwise(saved, env_spec, setting, value):
    _, folder = saved
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), setting: value}))
    refuse(at(settings(), folder), env_spec, f"is of another network: {setting}")


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


def test_adapters_of_some_modules_are_merged(saved, env_spec, tmp_path):
    """As those of the original trainer, which adapts neither convolutions nor the output layer:
    what has none stays as it was, also in training. Half an adapter is refused."""
    _, base = saved
    folder = tmp_path / "adapters"
    lora = settings(is_lora=True, lora_rank=4, save_adapters_only=True)
    shaken_adapters(made(at(lora, base), env_spec)).save_pretrained(folder)
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
    refuse(at(settings(), folder), env_spec, r"missing \(1\)")
    save_file({}, file)
    refuse(at(settings(), folder), env_spec, "holds no adapters")


@pytest.mark.parametrize(
    ("where", "name", "value"),
    [
        ("text_config", "rms_norm_eps", 1e-5),
        ("text_config", "rope_theta", 5e5),
        ("text_config", "rope_scaling", {"type": "linear", "factor": 2.0}),
        ("text_config", "hidden_act", "gelu"),
        (None, "n_action_bins", 128),
        (None, "pad_to_multiple_of", 32),
    ],
)
def test_settings_of_another_llama(saved, env_spec, where, name, value):
    _, folder = saved
    path = folder / "config.json"
    content = json.loads(path.read_text())
    (content[where] if where else content)[name] = value
    path.write_text(json.dumps(content))
    refuse(at(settings(), folder), env_spec, f"of another network: {name}")


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
def test_damaged_settings(saved, env_spec, file, changes):
    _, folder = saved
    path = folder / file
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    refuse(at(settings(), folder), env_spec, f"{file} is damaged")


def test_other_statistics_of_a_checkpoint_survive_a_fit(saved, env_spec, demonstrate, tmp_path):
    """The key that `unnorm_key` came to is fitted again, with its mask; the others stay."""
    _, folder = saved
    path = folder / "dataset_statistics.json"
    (entry,) = json.loads(path.read_text()).values()
    entry["action"]["mask"][-1] = False
    path.write_text(json.dumps({"bridge": entry, "libero_no_noops": entry}))
    content = json.loads((folder / "config.json").read_text())
    del content["norm_stats"]
    (folder / "config.json").write_text(json.dumps(content))
    policy = made(at(settings(unnorm_key="libero"), folder), env_spec)
    policy.fit_normalizer([demonstrate(env_spec, 15)])
    policy.save_pretrained(tmp_path / "after")
    found = json.loads((tmp_path / "after" / "dataset_statistics.json").read_text())
    assert found.keys() == {"bridge", "libero_no_noops"} and found["bridge"] == entry
    fitted = found["libero_no_noops"]["action"]
    assert fitted["q01"] != entry["action"]["q01"] and fitted["mask"] == entry["action"]["mask"]


def test_no_likeliest_tokens_are_all(env_spec):
    """0 switches it off in the published settings, -1 in ours."""
    field = next(each for each in fields(OpenVLAOFTConfig) if each.name == "top_k")
    allowed = field.metadata["range"]
    assert 0 in allowed and -1 in allowed and -2 not in allowed
