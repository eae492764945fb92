"""Adapter folders as peft itself writes them, with the targets of RLinf's trainer and of
OpenVLA-OFT's: what is loaded is what peft makes of them, and the rest is refused by name."""

from __future__ import annotations

import copy
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from rlcore_model_openvla_oft.policy import make
from rlcore_model_openvla_oft.settings import OpenVLAOFTConfig
from rlcore_model_openvla_oft.spec import policy_spec
from rlcore_prismatic.layout import network_shapes
from rlcore_prismatic.sizes import SIZES
from rlcore_weights.headers import read_headers
from safetensors.torch import load_file, save_file
from torch import nn

from rlcore.contracts.errors import ConfigError

# rlinf/models/__init__.py of RLinf
RLINF_TARGETS = [
    "proj",
    "qkv",
    "fc1",
    "fc2",
    "q",
    "kv",
    "fc3",
    "out_proj",
    "q_proj",
    "k_proj",
    "v_proj",
    "o_proj",
    "gate_proj",
    "up_proj",
    "down_proj",
    "lm_head",
]
Q_PROJ = "language_model.model.layers.0.self_attn.q_proj"


def settings(**changes) -> OpenVLAOFTConfig:
    base = {"size": "tiny_published", "num_action_chunks": 2, "add_value_head": False}
    return OpenVLAOFTConfig(**{**base, **changes})


class Original(nn.Module):
    """The network under its names, with what peft asks of a model of transformers."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.vision_backbone = network.vision_backbone
        self.projector = network.projector
        self.language_model = network.language_model

    def get_input_embeddings(self) -> nn.Module:
        return self.language_model.model.embed_tokens

    def get_output_embeddings(self) -> nn.Module:
        return self.language_model.lm_head


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    from rlcore_testing.conformance.fake_env import fake_env

    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("published") / "base"
    make(settings(), env_spec=fake_env()).save_pretrained(folder)
    path = folder / "config.json"  # as others publish it: without our record of the settings
    content = json.loads(path.read_text())
    del content["rlcore"]
    path.write_text(json.dumps(content))
    return folder


@pytest.fixture
def network(base, env_spec) -> Original:
    return Original(make(at(base), env_spec=env_spec).actor.network)


def at(model, **more) -> OpenVLAOFTConfig:
    return replace(settings(center_crop=True), model_path=str(model), **more)


def beside(base: Path, adapters: Path, **more) -> OpenVLAOFTConfig:
    return at(base, lora_path=str(adapters), **more)


def written(network: Original, folder: Path, *, base: str | None = None, **how) -> nn.Module:
    """A folder that peft writes; returns its merged network."""
    torch.manual_seed(1)
    config = LoraConfig(**{"r": 4, "lora_alpha": 4, "init_lora_weights": "gaussian", **how})
    model = get_peft_model(copy.deepcopy(network), config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name or "modules_to_save" in name:
                parameter.normal_(std=0.1)
    model.save_pretrained(folder)
    path = folder / "adapter_config.json"
    content = {**json.loads(path.read_text()), "base_model_name_or_path": base}
    path.write_text(json.dumps(content))
    return model.merge_and_unload()


def assert_same(policy, merged: nn.Module) -> None:
    expected = dict(merged.named_parameters())
    found = dict(policy.actor.network.named_parameters())
    assert found.keys() == expected.keys() and len(found) > 50
    for name, parameter in found.items():
        torch.testing.assert_close(parameter, expected[name], rtol=0, atol=2e-6, msg=name)


# -- what loads -----------------------------------------------------------------------------------


@pytest.mark.long
def test_adapters_of_rlinf_with_their_copy_of_the_output_layer(base, network, env_spec, tmp_path):
    """The convolution that embeds patches and the output layer are adapted too; with the latter
    peft writes the weight that it adapts."""
    merged = written(network, tmp_path, base="RLinf/some-base", target_modules=RLINF_TARGETS)
    names = read_headers(tmp_path / "adapter_model.safetensors")
    copied = "base_model.model.language_model.lm_head.base_layer.weight"
    assert copied in names and sum(".lora_" not in name for name in names) == 1
    assert any(".patch_embed.proj.lora_A" in name for name in names)
    assert_same(make(beside(base, tmp_path), env_spec=env_spec), merged)
    trained = make(beside(base, tmp_path, is_lora=True, lora_rank=4), env_spec=env_spec)
    assert trained.spec == policy_spec(beside(base, tmp_path, is_lora=True, lora_rank=4), env_spec)
    assert_same_function(trained, merged)


def assert_same_function(policy, merged: nn.Module) -> None:
    """Of a network whose adapters are still trained."""
    from rlcore_weights.tensors import MergedWeights, plain_parameters

    network = policy.actor.network
    weights = {**plain_parameters(network), **MergedWeights(network)}
    for name, parameter in merged.named_parameters():
        torch.testing.assert_close(weights[name], parameter, rtol=0, atol=2e-6, msg=name)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_adapters_of_another_base(base, network, env_spec, tmp_path, dtype, refuse):
    """The copy tells, also one that was rounded to bfloat16."""
    written(network, tmp_path / "a", base="some/base", target_modules=["q_proj", "lm_head"])
    file = tmp_path / "a" / "adapter_model.safetensors"
    tensors = {name: tensor.to(dtype) for name, tensor in load_file(file).items()}
    save_file(tensors, file)
    make(beside(base, tmp_path / "a"), env_spec=env_spec)
    other = tmp_path / "other"
    shutil.copytree(base, other)
    weights = load_file(base / "model.safetensors")
    weights["language_model.lm_head.weight"][3, 3] += 0.1
    save_file(weights, other / "model.safetensors")
    refuse(
        beside(other, tmp_path / "a"),
        "language_model.lm_head.weight",
        other,
        "some/base",
        "actor.model.model_path",
    )


def test_adapters_of_the_original_trainer_are_merged_or_trained_on(
    base, network, env_spec, tmp_path
):
    """`target_modules="all-linear"` leaves out convolutions and the output layer, and alpha is
    min(r, 16), here half of r. Training on keeps to the modules that have adapters."""
    linear = [
        name
        for name, part in network.named_modules()
        if isinstance(part, nn.Linear) and not name.endswith("lm_head")
    ]
    how = {"target_modules": linear, "r": 32, "lora_alpha": 16}
    merged = written(network, tmp_path / "a", base="openvla/openvla-7b", **how)
    assert_same(make(beside(base, tmp_path / "a"), env_spec=env_spec), merged)
    lora = {"is_lora": True, "lora_rank": 32, "save_adapters_only": True}
    policy = make(beside(base, tmp_path / "a", **lora), env_spec=env_spec)
    assert_same_function(policy, merged)
    adapted = {n.partition(".lora_")[0] for n, _ in policy.named_parameters() if ".lora_" in n}
    assert adapted == {f"actor.network.{name}" for name in linear}
    policy.save_pretrained(tmp_path / "later")
    content = json.loads((tmp_path / "later" / "adapter_config.json").read_text())
    assert (content["r"], content["lora_alpha"]) == (32, 16)
    assert content["base_model_name_or_path"] == str(base.resolve())
    assert_same_function(make(at(tmp_path / "later", **lora), env_spec=env_spec), merged)


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    "how",
    [
        {"target_modules": ["q_proj", "fc1"], "use_rslora": True, "lora_alpha": 6},
        {
            "target_modules": ["q_proj", "fc1"],
            "rank_pattern": {"layers.0.self_attn.q_proj": 2},
            "alpha_pattern": {r"blocks\.\d+\.mlp\.fc1": 3},
        },
        {"target_modules": ["q_proj"], "modules_to_save": ["fc3"]},
        {"target_modules": ["q_proj"], "modules_to_save": ["projector"]},  # all that is in it
        {"target_modules": ["q_proj"], "modules_to_save": ["lm_head", "embed_tokens"]},
        {"target_modules": ["q_proj"], "init_lora_weights": "orthogonal", "lora_dropout": 0.1},
    ],
    ids=["rslora", "patterns", "modules_to_save", "container", "embeddings", "orthogonal"],
)
def test_other_settings_of_peft_are_merged_exactly(base, network, env_spec, tmp_path, how):
    merged = written(network, tmp_path, **how)
    assert_same(make(beside(base, tmp_path), env_spec=env_spec), merged)


def test_rslora_is_trained_on_with_the_alpha_that_means_the_same(base, network, env_spec, tmp_path):
    """s = alpha / sqrt(r) = 6 / 2 = 12 / 4, so alpha is 12 where s = alpha / r."""
    how = {"target_modules": ["q_proj"], "use_rslora": True, "lora_alpha": 6}
    merged = written(network, tmp_path / "a", **how)
    lora = {"is_lora": True, "lora_rank": 4, "save_adapters_only": True}
    policy = make(beside(base, tmp_path / "a", **lora), env_spec=env_spec)
    assert_same_function(policy, merged)
    policy.save_pretrained(tmp_path / "later")
    content = json.loads((tmp_path / "later" / "adapter_config.json").read_text())
    assert content["lora_alpha"] == 12 and content["target_modules"] == ["q_proj"]


def test_a_copy_of_the_embedding_is_no_trained_weight(base, network, env_spec, tmp_path, refuse):
    """`save_embedding_layers=True` writes both embeddings, which adapters leave as they were."""
    model = get_peft_model(copy.deepcopy(network), LoraConfig(r=4, target_modules=["q_proj"]))
    model.save_pretrained(tmp_path, save_embedding_layers=True)
    names = read_headers(tmp_path / "adapter_model.safetensors")
    assert "base_model.model.language_model.model.embed_tokens.weight" in names
    make(beside(base, tmp_path), env_spec=env_spec)
    file = tmp_path / "adapter_model.safetensors"
    tensors = load_file(file)
    tensors["base_model.model.language_model.model.embed_tokens.weight"] += 1
    save_file(tensors, file)
    refuse(beside(base, tmp_path), "language_model.model.embed_tokens.weight", text=False)


def test_the_folder_of_a_trainer_that_did_not_merge(base, network, env_spec, tmp_path):
    """OpenVLA-OFT's with `merge_lora_during_training=False`, also after RLinf's converter with
    `merge_lora_weighs: False`: adapters in `lora_adapter/`, the rest beside them. Once the merged
    network lies there too, the adapters are in it already."""
    folder = tmp_path / "run--100_chkpt"
    merged = written(network, folder / "lora_adapter", base=str(base), target_modules=["q_proj"])
    for name in ("dataset_statistics.json", "tokenizer.json", "preprocessor_config.json"):
        shutil.copy(base / name, folder)
    assert_same(make(at(folder), env_spec=env_spec), merged)
    assert_same(make(beside(base, folder), env_spec=env_spec), merged)
    found = json.loads((folder / "dataset_statistics.json").read_text())
    (key,) = found
    found[key]["action"]["q99"] = [0.5] * len(found[key]["action"]["q99"])
    (folder / "dataset_statistics.json").write_text(json.dumps(found))
    policy = make(beside(base, folder), env_spec=env_spec)
    assert set(policy.processor.scaling.action.high) == {0.5}  # its own, not the base's
    save_file(dict(merged.state_dict()), folder / "model.safetensors")
    shutil.copy(base / "config.json", folder)
    assert_same(make(at(folder), env_spec=env_spec), merged)


# -- where the base is ----------------------------------------------------------------------------


@pytest.fixture
def cache(base, tmp_path, monkeypatch) -> Path:
    """Hugging Face's cache with the base under a name, as `hf download` fills it."""
    folder = tmp_path / "hub" / "models--openvla--openvla-7b"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("0123456789abcdef0123456789abcdef01234567")
    shutil.copytree(base, folder / "snapshots" / "0123456789abcdef0123456789abcdef01234567")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    return folder


def test_a_name_on_the_hub_is_looked_up_in_the_cache(
    cache, network, env_spec, tmp_path, refuse, edit
):
    merged = written(
        network, tmp_path / "a", base="openvla/openvla-7b", target_modules=["q_proj", "lm_head"]
    )
    assert_same(make(at(tmp_path / "a"), env_spec=env_spec), merged)
    written(network, tmp_path / "b", base="openvla/another", target_modules=["q_proj"])
    refuse(
        at(tmp_path / "b"),
        "hf download openvla/another --local-dir BASE",
        f"actor.model.model_path=BASE actor.model.lora_path={tmp_path / 'b'}",
    )
    edit(tmp_path / "a" / "adapter_config.json", {"revision": "v2"})
    download = "hf download openvla/openvla-7b --revision v2 --local-dir BASE"
    refuse(at(tmp_path / "a"), download)


@pytest.mark.parametrize("named", ["/home/me/openvla-7b", None])
def test_a_base_that_is_gone_or_not_named_is_refused(network, refuse, tmp_path, named):
    written(network, tmp_path, base=named, target_modules=["q_proj"])
    key = f"actor.model.lora_path={tmp_path}"
    error = refuse(at(tmp_path), named or "adapter_config.json", key, "actor.model.model_path")
    assert "hf download" not in error.hint


def test_a_folder_named_from_where_the_adapters_are(base, network, env_spec, tmp_path):
    merged = written(network, tmp_path / "a", base="../adapted", target_modules=["q_proj"])
    shutil.copytree(base, tmp_path / "adapted")
    assert_same(make(at(tmp_path / "a"), env_spec=env_spec), merged)


def test_paths_that_make_no_sense_together_are_refused(base, network, refuse, tmp_path):
    written(network, tmp_path / "a", base=str(base), target_modules=["q_proj"])
    adapters, gone = tmp_path / "a", tmp_path / "gone"
    alone = replace(settings(), lora_path=str(adapters))
    refuse(alone, "lora_path", f"actor.model.model_path={adapters}", kind=ConfigError)
    refuse(beside(base, gone), "lora_path", gone)
    refuse(beside(base, base), "lora_path", base, text=False)
    refuse(beside(adapters, adapters), "model_path", adapters)


# -- what is refused ------------------------------------------------------------------------------


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("how", "word"),
    [
        ({"use_dora": True}, "use_dora=True"),
        (
            {"lora_bias": True, "target_modules": ["fc1"], "init_lora_weights": True},
            "lora_bias=True",
        ),
        ({"bias": "all"}, "bias='all'"),
        ({"target_modules": ["embed_tokens"]}, "embed_tokens.lora_embedding_A"),
    ],
)
def test_adapters_that_can_not_be_loaded_exactly_are_refused(
    base, network, refuse, tmp_path, how, word
):
    written(network, tmp_path, **{"target_modules": ["q_proj"], **how})
    refuse(beside(base, tmp_path), word, "merge_and_unload")


def test_a_network_and_adapters_in_one_folder_need_lora_path(
    base, network, env_spec, tmp_path, refuse
):
    """They may be merged or not: what would be loaded is not guessed."""
    folder = tmp_path / "both"
    merged = written(network, folder, base=str(base), target_modules=["q_proj"])
    shutil.copytree(base, folder, dirs_exist_ok=True)
    refuse(at(folder), "actor.model.lora_path")
    own = folder / "lora_adapter"  # as RLinf publishes a base with the adapters to train on
    own.mkdir()
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        (folder / name).rename(own / name)
    assert_same(make(beside(folder, own), env_spec=env_spec), merged)


def test_adapters_without_their_weights_are_refused(base, network, env_spec, tmp_path, refuse):
    """As after a download that broke off. Beside a network they may be merged into it or lost."""
    merged = written(network, tmp_path, base=str(base), target_modules=["q_proj"])
    (tmp_path / "adapter_model.safetensors").unlink()
    for config in (at(tmp_path), beside(base, tmp_path)):
        refuse(config, "adapter_config.json", "adapter_model.safetensors")
    shutil.copytree(base, tmp_path, dirs_exist_ok=True)
    save_file(dict(merged.state_dict()), tmp_path / "model.safetensors")
    refuse(at(tmp_path), "model.safetensors", "adapter_config")
    (tmp_path / "adapter_config.json").unlink()
    assert_same(make(at(tmp_path), env_spec=env_spec), merged)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rank_pattern", {"layers.0.self_attn.q_proj": 2}),
        ("alpha_pattern", {"layers.0.self_attn.q_proj": 2}),
        ("modules_to_save", ["fc3"]),
    ],
)
def test_adapters_that_can_only_be_merged_are_not_trained_on(
    base, network, refuse, tmp_path, key, value
):
    written(network, tmp_path, target_modules=["q_proj"], **{key: value})
    refuse(beside(base, tmp_path, is_lora=True, lora_rank=4), f"{key}=", "is_lora=false")


@pytest.mark.long
def test_pickled_adapters_name_the_command_that_converts_them(
    base, network, env_spec, tmp_path, refuse
):
    """`safe_serialization=False` of peft. The command is run, and then they load."""
    merged = written(network, tmp_path, target_modules=["q_proj", "lm_head"])
    file = tmp_path / "adapter_model.safetensors"
    torch.save(load_file(file), tmp_path / "adapter_model.bin")
    file.unlink()
    error = refuse(beside(base, tmp_path), "adapter_model.bin", text=False)
    command = error.hint.partition(": ")[2].replace("python", sys.executable, 1)
    subprocess.run(command, shell=True, check=True)
    assert_same(make(beside(base, tmp_path), env_spec=env_spec), merged)


# -- ours in peft ---------------------------------------------------------------------------------


@pytest.mark.quick(1)
@pytest.mark.parametrize("changes", [{}, {"implement_version": "official", "use_film": True}])
def test_adapters_of_ours_load_in_peft(base, env_spec, tmp_path, changes, recwarn):
    """Every tensor finds its place, and the merged network is ours. FiLM's weights, which are
    fully trained with the adapters, are replaced too."""
    start = base
    if changes:
        start = tmp_path / "film"
        make(settings(**changes), env_spec=env_spec).save_pretrained(start)
    lora = {"is_lora": True, "lora_rank": 4, "save_adapters_only": True, **changes}
    lora["center_crop"] = not changes
    policy = make(at(start, **lora), env_spec=env_spec)
    with torch.no_grad():
        for name, parameter in policy.named_parameters():
            if "lora_B" in name or ".scale." in name or ".shift." in name:
                parameter.normal_(std=0.1)
    policy.save_pretrained(tmp_path / "a")
    plain = {"center_crop": not changes, **changes}
    network = Original(make(at(start, **plain), env_spec=env_spec).actor.network)
    recwarn.clear()
    loaded = PeftModel.from_pretrained(network, tmp_path / "a")
    assert not [w for w in recwarn if "key" in str(w.message)]  # peft names those without a place
    assert_same_function(policy, loaded.merge_and_unload())
    shapes = network_shapes(SIZES["tiny_published"], film=bool(changes))
    assert {
        name for name, _ in policy.actor.network.named_parameters() if ".lora_" not in name
    } >= {name for name in shapes if ".norm" in name}
