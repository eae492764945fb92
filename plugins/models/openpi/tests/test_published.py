"""Folders as openpi and RLinf write them: they load, bit for bit, or say what is wrong."""

from __future__ import annotations

import json
import math
import shutil
from collections import OrderedDict
from dataclasses import replace

import numpy as np
import pytest
import torch
from originals import (
    ASSET,
    PI0Pytorch,
    assert_holds,
    statistics,
    write_json,
    write_norm_stats,
    write_openpi,
    write_shards,
    write_tokenizer,
)
from rlcore_model_openpi.policy import make
from rlcore_model_openpi.resolved import resolve
from rlcore_model_openpi.settings import OpenPIConfig, OpenPIModelConfig
from rlcore_model_openpi.sizes import SIZES
from rlcore_model_openpi.spec import policy_spec
from rlcore_model_openpi.weight_files import find_weights
from safetensors.torch import load_model, save_file

from rlcore.contracts.errors import CheckpointError
from rlcore.contracts.specs import StateChannel

SIZE = SIZES["tiny_siglip"]


def sized(pi05: bool = False, **changes):
    return replace(SIZE, pi05=pi05, **changes)


def settings(folder, *, pi05: bool = False, critic: bool = False, **openpi) -> OpenPIModelConfig:
    name = "pi05_metaworld" if pi05 else "pi0_metaworld"
    keys = {"config_name": name, "size": "tiny_siglip", "num_steps": 2, "critic_hidden": [16]}
    return OpenPIModelConfig(
        model_path=str(folder),
        num_action_chunks=4,
        add_value_head=critic,
        openpi=OpenPIConfig(**{**keys, **openpi}),
    )


@pytest.fixture(params=[False, True], ids=["pi0", "pi05"])
def pi05(request) -> bool:
    return request.param


@pytest.fixture
def original(pi05) -> PI0Pytorch:
    torch.manual_seed(0)
    return PI0Pytorch(sized(pi05))


@pytest.fixture
def folder(tmp_path, original, pi05, env_spec):
    """A folder of openpi's converter."""
    write_openpi(tmp_path / "openpi", original, sized(pi05), env_spec)
    return tmp_path / "openpi"


def test_one_refusal_names_all_that_a_folder_lacks(folder, pi05, refuse):
    (folder / "model.safetensors").unlink()
    (folder / "paligemma_tokenizer.model").unlink()
    shutil.rmtree(folder / "assets")
    error = refuse(settings(folder, pi05=pi05), "model.safetensors", "paligemma_tokenizer.model")
    assert len(error.errors) == 3


def test_weights_of_another_size_or_model_are_refused(folder, pi05, refuse):
    config = settings(folder, pi05=pi05, size="pi05" if pi05 else "pi0")
    (folder / "config.json").unlink()
    refuse(config, "actor.model.openpi.size=tiny_siglip")
    save_file({"model.norm.weight": torch.zeros(2)}, folder / "model.safetensors")
    refuse(config, "1 tensors", "norm.weight")


# -- layouts ------------------------------------------------------------------------------------


def test_openpis_converter(folder, original, pi05, env_spec, caplog):
    config = settings(folder, pi05=pi05)
    policy_spec(config, env_spec)
    policy = make(config, env_spec=env_spec)
    assert_holds(policy, original)
    assert "action_horizon 10" in caplog.text
    assert policy.processor.resolved.size.action_horizon == 10  # of its config.json
    stats = statistics(env_spec)["actions"]
    np.testing.assert_array_equal(policy.processor.normalizer.actions.std, stats["std"])


def test_openpis_trainer(folder, original, pi05, env_spec):
    """It writes the state of its optimizer too, and no config.json."""
    (folder / "config.json").unlink()
    torch.save({"state": {}, "param_groups": []}, folder / "optimizer.pt")
    torch.save({"global_step": 10, "config": {}, "timestamp": 0.0}, folder / "metadata.pt")
    config = settings(folder, pi05=pi05, action_horizon=10)
    assert_holds(make(config, env_spec=env_spec), original)


def test_shards_of_rlinfs_converter(tmp_path, folder, original, pi05, env_spec, refuse):
    """It copies *.json of the folder that the run began with, and not the tokenizer."""
    shards = tmp_path / "shards"
    shutil.copytree(folder / "assets", shards)  # where RLinf keeps statistics
    shutil.copy(folder / "config.json", shards)
    files = write_shards(shards, original.state_dict(), 200_000)
    assert len(files) > 3
    config = settings(shards, pi05=pi05)
    refuse(config, "paligemma_tokenizer.model", "big_vision")
    write_tokenizer(shards, SIZE, env_spec)
    assert_holds(make(config, env_spec=env_spec), original)
    (shards / files[1]).unlink()
    refuse(config, files[1])


@pytest.mark.parametrize("place", ["actor/model_state_dict", "model_state_dict"])
def test_a_run_of_rlinf(tmp_path, original, pi05, env_spec, place, refuse):
    """It holds weights and critic alone; what it lacks is asked for at once."""
    run = tmp_path / "global_step_10"
    fresh = replace(settings(run, pi05=pi05, critic=True), model_path=None)
    critic = make(fresh, env_spec=env_spec).actor.value_head
    state = OrderedDict(original.state_dict())
    state |= {f"value_head.{name}": value for name, value in critic.state_dict().items()}
    (run / place).mkdir(parents=True)
    torch.save(state, run / place / "full_weights.pt")
    config = settings(run, pi05=pi05, critic=True, action_horizon=10)
    refuse(config, "norm_stats.json", "paligemma_tokenizer.model")
    write_tokenizer(run, SIZE, env_spec)
    assert "paligemma_tokenizer" not in refuse(config, "norm_stats.json").message
    write_norm_stats(run / ASSET, statistics(env_spec))
    policy = make(config, env_spec=env_spec)
    assert_holds(policy, original)
    assert torch.equal(policy.actor.value_head.mlp[0].weight, critic.mlp[0].weight)


@pytest.mark.parametrize("kept", ["bf16", "run"])
def test_a_noise_head_of_rlinf_keeps_its_range(tmp_path, original, pi05, env_spec, kept, refuse):
    """RLinf stores log(std^2) of its bounds: log(0.08^2) is -5.05146, in bfloat16 -5.0625, a std of
    0.0796. Converted with `torch_dtype=bf16`, or as a run leaves it."""
    keys = {"noise_method": "flow_noise", "joint_logprob": True, "action_horizon": 10}
    fresh = replace(settings(tmp_path, pi05=pi05, **keys), model_path=None)
    head = make(fresh, env_spec=env_spec).actor.noise_head
    state = dict(original.state_dict())
    for name, value in head.state_dict().items():
        layer, part = name.removeprefix("mlp.").split(".")
        state[f"noise_head.mlp_logvar.moduleList.{int(layer) // 2}.linear_1.{part}"] = value
    state |= {
        f"noise_head.logvar_{end}": torch.tensor([2 * math.log(std)])
        for end, std in (("min", 0.08), ("max", 0.16))
    }
    if kept == "bf16":
        state = {name: tensor.to(torch.bfloat16) for name, tensor in state.items()}
        write_shards(tmp_path, state, 400_000)
    else:
        (tmp_path / "model_state_dict").mkdir()
        torch.save(state, tmp_path / "model_state_dict" / "full_weights.pt")
    write_tokenizer(tmp_path, SIZE, env_spec)
    write_norm_stats(tmp_path / ASSET, statistics(env_spec))
    policy_spec(settings(tmp_path, pi05=pi05, **keys), env_spec)
    other = settings(tmp_path, pi05=pi05, noise_logvar_range=[0.1, 0.2], **keys)
    refuse(other, "noise_logvar_range", "[0.0796" if kept == "bf16" else "[0.08")


def test_adapters_left_in_a_run_of_rlinf_are_merged(tmp_path, original, pi05, env_spec, refused):
    """peft wraps PaliGemma alone there; alpha is the rank, so W + B A."""
    name = "paligemma_with_expert.paligemma.model.language_model.layers.0.mlp.up_proj.weight"
    inside = "paligemma_with_expert.paligemma."
    state = {}
    for key, value in original.state_dict().items():
        key = key.replace(inside, f"{inside}base_model.model.")
        state[key.replace("up_proj.weight", "up_proj.base_layer.weight")] = value
    weight = original.state_dict()[name]
    a, b = torch.randn(2, weight.shape[1]), torch.randn(weight.shape[0], 2)
    stem = name.replace(inside, f"{inside}base_model.model.").removesuffix(".weight")
    state |= {f"{stem}.lora_A.default.weight": a, f"{stem}.lora_B.default.weight": b}
    run = tmp_path / "model_state_dict"
    run.mkdir()
    torch.save(state, run / "full_weights.pt")
    write_tokenizer(tmp_path, SIZE, env_spec)
    write_norm_stats(tmp_path / ASSET, statistics(env_spec))
    policy = make(settings(tmp_path, pi05=pi05, action_horizon=10), env_spec=env_spec)
    torch.testing.assert_close(policy.actor.network.get_parameter(name), weight + b @ a)
    write_json(tmp_path / "adapter_config.json", {"peft_type": "LORA", "r": 2, "lora_alpha": 4})
    with refused(CheckpointError, "adapter_config.json"):
        find_weights(tmp_path)


# -- what config.json says ----------------------------------------------------------------------


@pytest.fixture
def change(edit):
    return lambda folder, **values: edit(folder / "config.json", values)


@pytest.mark.parametrize(
    ("key", "value"), [("action_horizon", 7), ("max_token_len", 40)], ids=lambda each: str(each)
)
def test_a_null_is_taken_from_config_json_and_another_value_refused(
    folder, pi05, env_spec, key, value, refuse, change
):
    change(folder, **{key: value})
    assert getattr(resolve(settings(folder, pi05=pi05), env_spec).size, key) == value
    policy_spec(settings(folder, pi05=pi05, **{key: value}), env_spec)
    refuse(settings(folder, pi05=pi05, **{key: 9}), f"{key} {value}", f"actor.model.openpi.{key}")


def test_entries_of_config_json_are_those_of_the_weights(folder, pi05, refuse, change):
    change(folder, action_dim=7)
    refuse(settings(folder, pi05=pi05), "action_in_proj.weight", "[32, 32]")


def test_weights_of_the_other_generation_are_refused(folder, pi05, refuse, change):
    """Recognised by config.json, where it says so, else by the weights."""
    other = "pi0_metaworld" if pi05 else "pi05_metaworld"
    config = settings(folder, config_name=other)
    refuse(config, "π0.5" if pi05 else "π0")
    change(folder, pi05=pi05)
    refuse(config, other, f"config_name={'pi05' if pi05 else 'pi0'}_metaworld")


def test_the_state_in_the_prompt_is_taken_from_config_json(tmp_path, env_spec, refuse, change):
    size = sized(True)
    write_openpi(tmp_path, PI0Pytorch(size), size, env_spec)
    assert not resolve(settings(tmp_path, pi05=True), env_spec).discrete_state
    change(tmp_path, discrete_state_input=True, max_token_len=200)
    assert resolve(settings(tmp_path, pi05=True), env_spec).discrete_state
    refuse(settings(tmp_path, pi05=True, discrete_state_input=False), "discrete_state_input")


@pytest.mark.parametrize(
    ("key", "value", "word"),
    [
        ("paligemma_variant", "gemma_2b_lora", "LoRA"),
        ("pcd", True, "point clouds"),
        ("action_horizon", "50", "action_horizon"),
        ("action_horizon", 0, "action_horizon"),
        ("max_token_len", 10**12, "1..16384"),
        ("pi05", "yes", "pi05"),
    ],
)
def test_config_json_that_can_not_be_honoured_is_refused(
    folder, pi05, refuse, change, key, value, word
):
    change(folder, **{key: value})
    refuse(settings(folder, pi05=pi05), folder / "config.json", word)


def test_another_variant_of_the_published_size_is_refused(tmp_path, refuse):
    write_json(tmp_path / "config.json", {"action_expert_variant": "gemma_2b"})
    config = OpenPIModelConfig(model_path=str(tmp_path), openpi=OpenPIConfig())
    refuse(config, "action_expert_variant", "gemma_2b", "gemma_300m")


# -- other kinds of weights ---------------------------------------------------------------------


def test_a_jax_checkpoint_names_openpis_converter(tmp_path, refuse):
    (tmp_path / "pi0_base" / "params").mkdir(parents=True)
    (tmp_path / "pi0_base" / "params" / "_METADATA").write_text("{}")
    for place in ("pi0_base", "pi0_base/params"):
        refuse(
            settings(tmp_path / place),
            "examples/convert_jax_model_to_pytorch.py",
            f"--checkpoint_dir {tmp_path / 'pi0_base'} --config_name",
            f"--output_path {tmp_path / 'pi0_base_pytorch'}",
        )


def test_rlinfs_own_names_name_its_converter(folder, refuse):
    weights = {"llm.embedder.embedding.weight": torch.zeros(4, 2), "img.stem.weight": torch.ones(1)}
    save_file(weights, folder / "model.safetensors")
    refuse(settings(folder), "--mode openpi_rlinf_to_openpi_pytorch")


def test_adapters_alone_are_refused(folder, refuse):
    (folder / "model.safetensors").rename(folder / "adapter_model.safetensors")
    write_json(folder / "adapter_config.json", {"peft_type": "LORA"})
    refuse(settings(folder), "merge_and_unload")


@pytest.mark.parametrize("name", ["model.safetensors", "paligemma_tokenizer.model", "config.json"])
def test_a_pointer_of_git_lfs_is_refused(folder, pi05, refuse, name):
    (folder / name).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    refuse(settings(folder, pi05=pi05), name, "git lfs pull")


# -- statistics ---------------------------------------------------------------------------------


def test_an_entry_that_never_moved(folder, original, pi05, env_spec):
    """openpi adds 1e-6: action = mean + 0 * 1e-6 for a z-score of 0, and likewise the bound."""
    stats = statistics(env_spec)
    for values in stats.values():
        values["std"][1] = 0
        values["q99"][1] = values["q01"][1]
    shutil.rmtree(folder / "assets")
    write_norm_stats(folder / "assets" / ASSET, stats)
    policy = make(settings(folder, pi05=pi05), env_spec=env_spec)
    normalizer = policy.processor.normalizer
    actions = normalizer.unnormalize_actions(np.zeros((1, 4)))
    still = stats["actions"]["q01" if pi05 else "mean"][1]
    assert actions[0, 1] == pytest.approx(still + (0.5e-6 if pi05 else 0), abs=1e-7)
    # z-score: 2e-6 / 1e-6 = 2; quantile: 2 * 2e-6 / 1e-6 - 1 = 3
    values = np.zeros((1, 4))
    values[0, 1] = np.float64(still) + 2e-6
    assert normalizer.normalize_actions(values)[0, 1] == pytest.approx(3 if pi05 else 2, rel=1e-5)


def test_a_negative_scale_is_refused(folder, pi05, env_spec, refuse):
    stats = statistics(env_spec)
    stats["actions"]["std"][2] = -1
    stats["actions"]["q99"][2] = -3
    shutil.rmtree(folder / "assets")
    write_norm_stats(folder / "assets" / ASSET, stats)
    refuse(settings(folder, pi05=pi05), "q99" if pi05 else "std", "entry 2")


@pytest.mark.parametrize("state", [None, {"mean": [0.0], "std": [1.0], "q01": [0.0], "q99": [1.0]}])
def test_a_policy_that_never_reads_the_state_needs_no_statistics_of_it(
    folder, pi05, env_spec, observe, state, tmp_path, refuse
):
    path = folder / "assets" / ASSET / "norm_stats.json"
    content = json.loads(path.read_text())
    content["norm_stats"]["state"] = state
    path.write_text(json.dumps(content))
    config = settings(folder, pi05=pi05)
    if not pi05:
        refuse(config, "'state'")
        return
    policy = make(config, env_spec=env_spec)
    assert not policy.prepare(observe(env_spec, 2))["state"].any()
    policy.save_pretrained(tmp_path / "again")
    make(settings(tmp_path / "again", pi05=True), env_spec=env_spec)


# -- exports ------------------------------------------------------------------------------------


def test_our_checkpoints_load_in_openpi(folder, original, pi05, env_spec, tmp_path):
    """With the call of openpi's `load_pytorch`: strict, and weights tied."""
    policy = make(settings(folder, pi05=pi05), env_spec=env_spec)
    policy.save_pretrained(tmp_path / "ours")
    torch.manual_seed(1)
    again = PI0Pytorch(sized(pi05))
    load_model(again, tmp_path / "ours" / "model.safetensors")  # strict=True
    for name, tensor in original.state_dict().items():
        if "gemma_expert.lm_head" not in name:
            assert torch.equal(again.state_dict()[name], tensor), name
    # where openpi's create_trained_policy looks, with the fields of its NormStats
    stats = json.loads((tmp_path / "ours" / "assets" / ASSET / "norm_stats.json").read_text())
    assert set(stats) == {"norm_stats"} and set(stats["norm_stats"]) == {"state", "actions"}
    for values in stats["norm_stats"].values():
        assert set(values) == {"mean", "std", "q01", "q99"}
        assert all(isinstance(number, float) for row in values.values() for number in row)


@pytest.mark.parametrize(
    ("asset", "states"),
    [
        ("physical-intelligence/maniskill", (StateChannel("joint_position", 8),)),
        ("somebody/elses", ()),
    ],
)
@pytest.mark.parametrize("place", ["assets", "."])
def test_the_state_it_learned_from_is_known_by_its_data_set(
    folder, pi05, env_spec, asset, states, place
):
    """Whatever config_name says: the statistics are the only ones in the folder. A π0.5 that does
    not read the state learned from none."""
    (folder / place / asset).parent.mkdir(parents=True, exist_ok=True)
    shutil.move(folder / "assets" / ASSET, folder / place / asset)
    assert policy_spec(settings(folder, pi05=pi05), env_spec).states == (() if pi05 else states)
    written = settings(folder, pi05=pi05, discrete_state_input=pi05, max_token_len=48)
    assert policy_spec(written, env_spec).states == states


def test_without_a_checkpoint_nothing_was_learned(env_spec):
    config = OpenPIModelConfig(
        num_action_chunks=4, openpi=OpenPIConfig(config_name="pi0_maniskill", size="tiny")
    )
    assert policy_spec(config, env_spec).states == ()
