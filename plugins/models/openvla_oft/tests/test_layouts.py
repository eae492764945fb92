"""Folders as RLinf's and OpenVLA-OFT's trainers and converters leave them, and what ours are to
their loaders. Names of files and weights are those of the public code of both."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rlcore_model_openvla_oft.policy import make
from rlcore_model_openvla_oft.settings import OpenVLAOFTConfig
from rlcore_model_openvla_oft.spec import resolve
from rlcore_prismatic import checkpoint
from rlcore_prismatic.adapters import read_adapters
from rlcore_prismatic.files import check_folders
from rlcore_prismatic.folders import Folders
from rlcore_prismatic.layout import LORA_TARGETS, adapter_shapes, network_shapes
from rlcore_prismatic.network.model import PrismaticModel
from rlcore_prismatic.originals import to_original
from rlcore_prismatic.resolved import Resolved
from rlcore_prismatic.sizes import SIZES
from safetensors.torch import load_file, save_file

from rlcore.contracts.errors import CheckpointError
from rlcore.contracts.rng import RowKeys

SIZE = "tiny_published"
KEYS = RowKeys(tuple((1, row) for row in range(3)))
OFFICIAL = {"implement_version": "official", "use_proprio": True, "proprio_dim": 4}
FILM = {**OFFICIAL, "use_film": True}


def settings(**changes) -> OpenVLAOFTConfig:
    base = {
        "size": SIZE,
        "num_action_chunks": 2,
        "critic_hidden": [16],
        "add_value_head": True,
        "center_crop": True,
    }
    return OpenVLAOFTConfig(**{**base, **changes})


def at(folder: Path, **changes) -> OpenVLAOFTConfig:
    return replace(settings(**changes), model_path=str(folder))


def policy_of(env_spec, folder: Path | None = None, **changes):
    torch.manual_seed(0 if folder is None else 1)
    config = settings(**changes) if folder is None else at(folder, **changes)
    return make(config, env_spec=env_spec)


def assert_same(policy, other, observation, *, atol: float = 0.0) -> None:
    out, again = (p.act(p.prepare(observation), KEYS, deterministic=True) for p in (policy, other))
    torch.testing.assert_close(again.values, out.values, rtol=0, atol=atol)
    torch.testing.assert_close(again.logprobs, out.logprobs, rtol=0, atol=atol)
    assert (out.actions == again.actions).all()


def stirred(policy):
    """With FiLM's maps, which begin as zero, doing something."""
    with torch.no_grad():
        for name, parameter in policy.named_parameters():
            if ".scale." in name or ".shift." in name:
                parameter.normal_(std=0.1)
    return policy


def published(policy, folder: Path) -> Path:
    """Save a policy without our record of its settings; returns the folder."""
    policy.save_pretrained(folder)
    path = folder / "config.json"
    content = json.loads(path.read_text())
    del content["rlcore"]
    path.write_text(json.dumps(content))
    return folder


def whole_state(policy) -> dict[str, torch.Tensor]:
    """`model.state_dict()` of RLinf's policy, which holds projector and critic."""
    actor = policy.actor
    state = dict(actor.network.state_dict())
    for name in ("value_head", "proprio_projector"):
        part = getattr(actor, name, None)
        if part is not None:
            state |= {f"{name}.{key}": tensor for key, tensor in part.state_dict().items()}
    return {name: tensor.clone() for name, tensor in state.items()}


def in_shards(state: dict[str, torch.Tensor], folder: Path) -> None:
    """As RLinf's converter cuts them: sorted by name."""
    names = sorted(state)
    parts = [names[0::2], names[1::2]]
    index = {}
    for number, part in enumerate(parts, 1):
        file = f"model-{number:05d}-of-{len(parts):05d}.safetensors"
        save_file({name: state[name].contiguous() for name in part}, folder / file)
        index |= dict.fromkeys(part, file)
    content = {"metadata": {"total_size": 0}, "weight_map": index}
    (folder / "model.safetensors.index.json").write_text(json.dumps(content))


def adapted(state: dict[str, torch.Tensor], rank: int, scale: float) -> dict[str, torch.Tensor]:
    """The same state by peft's names, with adapters that are not merged: W - s B A, A and B."""
    torch.manual_seed(2)
    named: dict[str, torch.Tensor] = {}
    for name, tensor in state.items():
        module, _, kind = name.rpartition(".")
        weight = state.get(f"{module}.weight", tensor)
        if module.rpartition(".")[2] not in LORA_TARGETS or weight.ndim < 2:
            named[name] = tensor
            continue
        if kind == "weight":
            outputs, inputs, *kernel = tensor.shape
            a, b = torch.randn(rank, inputs, *kernel) * 0.1, torch.randn(outputs, rank) * 0.1
            tensor = tensor - scale * torch.einsum("or,r...->o...", b, a)
            named[f"{module}.lora_A.default.weight"] = a
            named[f"{module}.lora_B.default.weight"] = b.reshape(
                outputs, rank, *(1 for _ in kernel)
            )
        named[f"{module}.base_layer.{kind}"] = tensor
    return named


# -- RLinf's converter ----------------------------------------------------------------------------


@pytest.mark.quick(1)
@pytest.mark.parametrize("merged", [True, False])
def test_rlinfs_export_with_film(env_spec, observe, tmp_path, merged, refuse):
    """Wrapped towers in the shards, and once more beside them, `vision_backbone--0_checkpoint.pt`.
    A run without is_lora still has the adapters that wrap FiLM's network: alpha is min(r, 16)."""
    policy = stirred(policy_of(env_spec, **FILM))
    folder = published(policy, tmp_path / "export")
    for path in folder.glob("*.safetensors"):
        path.unlink()
    state = whole_state(policy)
    if not merged:
        state = adapted(state, 32, 0.5)
    in_shards(state, folder)
    for part in ("vision_backbone", "proprio_projector"):
        own = {n.removeprefix(f"{part}."): t for n, t in state.items() if n.startswith(f"{part}.")}
        torch.save(own, folder / f"{part}--0_checkpoint.pt")
    other = policy_of(env_spec, folder, **FILM)
    assert_same(policy, other, observe(env_spec, 3), atol=0 if merged else 1e-4)
    (folder / "vision_backbone--0_checkpoint.pt").unlink()  # the shards hold it too
    other = policy_of(env_spec, folder, **FILM)
    assert_same(policy, other, observe(env_spec, 3), atol=0 if merged else 1e-4)
    refuse(at(folder, **OFFICIAL), "vision_backbone.vision_backbone", "use_film=false")


# -- RLinf's runs ---------------------------------------------------------------------------------


@pytest.fixture
def run(env_spec, tmp_path):
    """A policy, its base, and the folder of a run's step without the files beside its weights."""
    policy = policy_of(env_spec)
    base = published(policy, tmp_path / "base")
    step = tmp_path / "run" / "checkpoints" / "global_step_10"
    (step / "actor" / "model_state_dict").mkdir(parents=True)
    return policy, base, step


def save_adapted(policy, step: Path, scale: float) -> None:
    """As RLinf saves peft's wrapper, adapters unmerged."""
    state = adapted(whole_state(policy), 4, scale)
    named = {f"base_model.model.{name}": tensor for name, tensor in state.items()}
    torch.save(named, step / "actor/model_state_dict/full_weights.pt")


def copy_settings(base: Path, folder: Path) -> None:
    for file in base.glob("*.json"):
        if "index" not in file.name:
            shutil.copy(file, folder)


@pytest.mark.parametrize("place", ["", "actor", "actor/model_state_dict"])
def test_a_run_of_rlinf_is_read_from_any_of_its_folders(run, env_spec, observe, place, refuse):
    """`actor/model_state_dict/full_weights.pt` below the step: any of the three folders is one."""
    policy, base, step = run
    torch.save(whole_state(policy), step / "actor/model_state_dict/full_weights.pt")
    folder = step / place
    lacking = "config.json, preprocessor_config.json, tokenizer.json, dataset_statistics.json"
    refuse(at(folder), lacking, "cp START/config.json", "actor.model.model_path")
    (step.parents[1] / "tensorboard").mkdir()
    (step.parents[1] / "tensorboard" / "config.yaml").write_text(
        "actor: {model: {model_path: /weights/oft, lora_path: null}}\n"
    )
    refuse(
        at(folder),
        "cp /weights/oft/config.json /weights/oft/preproc",
        f"/weights/oft/dataset_statistics.json {folder}",
    )
    shutil.copy(base / "config.json", folder)  # which has the statistics too
    refuse(at(folder), "preprocessor_config.json, tokenizer.json\n")
    copy_settings(base, folder)
    assert_same(policy, policy_of(env_spec, folder), observe(env_spec, 3))


@pytest.mark.quick(1)
@pytest.mark.parametrize("alpha", ["rank", "beside", "where the run began"])
def test_a_run_of_rlinf_with_adapters(run, env_spec, observe, tmp_path, alpha, recwarn):
    """peft's wrapper is saved with them. Their alpha is not: it is the rank, or that of the
    adapters in the run's lora_path."""
    policy, base, step = run
    save_adapted(policy, step, 1.0 if alpha == "rank" else 0.5)
    copy_settings(base, step)
    place = step if alpha == "beside" else tmp_path / "began"
    place.mkdir(exist_ok=True)
    content = {"peft_type": "LORA", "r": 4, "lora_alpha": 2}
    (place / "adapter_config.json").write_text(json.dumps(content))
    if alpha == "where the run began":
        (step / "config.yaml").write_text(f"actor: {{model: {{lora_path: '{place}'}}}}\n")
    assert_same(policy, policy_of(env_spec, step), observe(env_spec, 3), atol=1e-4)
    warned = any("alpha" in str(warning.message) for warning in recwarn)
    assert warned == (alpha == "rank")


def test_adapters_of_a_run_whose_alpha_is_gone_are_refused(run, refuse):
    """The run began with a lora_path, which is not here: any alpha would be a guess."""
    policy, base, step = run
    save_adapted(policy, step, 0.5)
    copy_settings(base, step)
    (step / "config.yaml").write_text("actor: {model: {lora_path: /gone}}\n")
    refuse(at(step), "lora_path", "/gone", "adapter_config.json", step)


def test_a_critic_of_another_shape_beside_the_network_is_refused(run, refuse):
    policy, base, step = run
    critic = {"value_head.mlp.0.weight": torch.zeros(3, 3)}
    torch.save({**whole_state(policy), **critic}, step / "full_weights.pt")
    copy_settings(base, step)
    refuse(at(step), "full_weights.pt", "actor.model.value_type", "critic_hidden")


def test_the_files_of_a_run_are_copied_from_where_they_are(run, env_spec, refuse):
    """The base has its statistics in config.json alone; the command is run."""
    policy, base, step = run
    torch.save(whole_state(policy), step / "full_weights.pt")
    (base / "dataset_statistics.json").unlink()
    (step / "config.yaml").write_text(f"actor: {{model: {{model_path: {base}}}}}\n")
    error = refuse(at(step), "dataset_statistics.json")
    command = error.hint.partition(": ")[2]
    subprocess.run(command, shell=True, check=True)
    policy_of(env_spec, step)


def test_a_checkpoint_of_openvlas_own_trainer_names_its_converter(refuse, tmp_path):
    """vla-scripts/train.py leaves `checkpoints/step-...pt` below the run."""
    (tmp_path / "checkpoints").mkdir()
    torch.save({"model": {}}, tmp_path / "checkpoints" / "step-000100-epoch-01-loss=0.1.pt")
    converter = f"convert_openvla_weights_to_hf.py --openvla_model_path_or_id {tmp_path}"
    refuse(at(tmp_path), "model.safetensors", converter)


class Evil:
    def __reduce__(self):
        return os.mkdir, ("evil",)


@pytest.mark.parametrize("where", ["weights", "component"])
def test_an_unsafe_pickle_is_refused_and_not_run(run, refuse, tmp_path, monkeypatch, where):
    policy, base, step = run
    monkeypatch.chdir(tmp_path)
    if where == "weights":
        copy_settings(base, step)
        torch.save({**whole_state(policy), "x": Evil()}, step / "full_weights.pt")
        refuse(at(step), "full_weights.pt", "posix.mkdir", "safetensors")
    else:
        torch.save({"fc1.weight": Evil()}, base / "proprio_projector--1_checkpoint.pt")
        refuse(at(base, **OFFICIAL), "posix.mkdir", "safetensors")
    assert not (tmp_path / "evil").exists()


# -- OpenVLA-OFT's trainer ------------------------------------------------------------------------


def test_film_of_a_trainer_that_did_not_merge(env_spec, observe, tmp_path):
    """Its towers hold their adapters (alpha min(r, 16)), and the same adapters are in
    `lora_adapter/`: they are added once."""
    policy = stirred(policy_of(env_spec, **FILM))
    folder, base = tmp_path / "run--100_chkpt", tmp_path / "openvla-7b"
    published(policy_of(env_spec), base)
    language = load_file(base / "model.safetensors")
    state = adapted(dict(policy.actor.network.state_dict()), 32, 0.5)
    for name in language:
        if not name.startswith("vision_backbone."):
            plain = name if name in state else name.replace(".weight", ".base_layer.weight")
            plain = plain if plain in state else name.replace(".bias", ".base_layer.bias")
            language[name] = state[plain].contiguous()
    save_file(language, base / "model.safetensors")
    (folder / "lora_adapter").mkdir(parents=True)
    low = {n: t.contiguous() for n, t in state.items() if ".lora_" in n}
    low = {f"base_model.model.{n.replace('.default.', '.')}": t for n, t in low.items()}
    save_file(low, folder / "lora_adapter" / "adapter_model.safetensors")
    content = {"peft_type": "LORA", "r": 32, "lora_alpha": 16, "base_model_name_or_path": str(base)}
    (folder / "lora_adapter" / "adapter_config.json").write_text(json.dumps(content))
    part = "vision_backbone."
    towers = {n.removeprefix(part): t for n, t in state.items() if n.startswith(part)}
    torch.save(towers, folder / "vision_backbone--100_checkpoint.pt")
    projector = policy.actor.proprio_projector.state_dict()
    projector = {f"module.{name}": tensor for name, tensor in projector.items()}
    torch.save(projector, folder / "proprio_projector--100_checkpoint.pt")
    published(policy, tmp_path / "whole")
    for name in (
        "dataset_statistics.json",
        "tokenizer.json",
        "preprocessor_config.json",
        "rl_heads.safetensors",
    ):
        shutil.copy(tmp_path / "whole" / name, folder)
    assert_same(policy, policy_of(env_spec, folder, **FILM), observe(env_spec, 3), atol=1e-4)


@pytest.mark.parametrize("is_lora", [False, True])
def test_adapters_of_parts_besides_the_network(env_spec, observe, tmp_path, is_lora):
    """RLinf's policy holds the projector of the state, so peft adapts its fc1 and fc2 as well. Here
    it is trained as a whole, so its adapters are merged, also where the others are trained on."""
    policy = policy_of(env_spec, **OFFICIAL)
    base = published(policy, tmp_path / "base")
    state = adapted(dict(policy.actor.proprio_projector.state_dict()), 4, 1.0)
    plain = {n.replace(".base_layer.", "."): t for n, t in state.items() if ".lora_" not in n}
    (path,) = base.glob("proprio_projector--*")
    save_file(plain, path)
    prefix = "base_model.model.proprio_projector."
    low = {f"{prefix}{n.replace('.default.', '.')}": t for n, t in state.items() if ".lora_" in n}
    weights = load_file(base / "model.safetensors")
    name = "language_model.model.layers.0.self_attn.q_proj"
    low[f"base_model.model.{name}.lora_A.weight"] = torch.ones(4, 64)
    low[f"base_model.model.{name}.lora_B.weight"] = torch.zeros(64, 4)
    assert weights[f"{name}.weight"].shape == (64, 64)
    (tmp_path / "a").mkdir()
    save_file(low, tmp_path / "a" / "adapter_model.safetensors")
    content = {"peft_type": "LORA", "r": 4, "lora_alpha": 4}
    (tmp_path / "a" / "adapter_config.json").write_text(json.dumps(content))
    more = {"lora_path": str(tmp_path / "a"), "is_lora": is_lora, "lora_rank": 4}
    assert_same(
        policy, policy_of(env_spec, base, **OFFICIAL, **more), observe(env_spec, 3), atol=1e-5
    )


# -- ours in the originals ------------------------------------------------------------------------


def test_names_and_files_of_ours_are_those_of_the_original_classes(env_spec, tmp_path):
    """What `from_pretrained` of OpenVLA's classes finds: modeling_prismatic.py's modules, of timm's
    and transformers' names, with LayerScale's factor under the name that it is given there."""
    policy_of(env_spec).save_pretrained(tmp_path)
    names = set(load_file(tmp_path / "model.safetensors"))
    assert names == set(network_shapes(SIZES[SIZE]))
    tops = {".".join(name.split(".")[:2]) for name in names}
    assert tops == {
        "vision_backbone.featurizer",
        "vision_backbone.fused_featurizer",
        "projector.fc1",
        "projector.fc2",
        "projector.fc3",
        "language_model.model",
        "language_model.lm_head",
    }
    assert not any(".gamma" in name or name.startswith("value_head") for name in names)
    content = json.loads((tmp_path / "config.json").read_text())
    assert content["architectures"] == ["OpenVLAForActionPrediction"]
    arguments = {
        "use_fused_vision_backbone",
        "image_resize_strategy",
        "text_config",
        "norm_stats",
        "llm_max_length",
        "pad_token_id",
        "pad_to_multiple_of",
        "n_action_bins",
    }
    assert content.keys() >= arguments  # of OpenVLAConfig
    assert content["text_config"]["model_type"] == "llama"
    statistics = json.loads((tmp_path / "dataset_statistics.json").read_text())
    assert content["norm_stats"] == statistics and "action" in next(iter(statistics.values()))


def test_our_components_load_in_the_original_loader(env_spec, observe, tmp_path):
    """experiments/robot/openvla_utils.py: one file with the component's name and "checkpoint" in
    its own, of torch.save, loaded strictly; FiLM's towers after peft has given each of their linear
    maps an adapter of rank 32, but neither FiLM's own maps nor the convolution."""
    policy = stirred(policy_of(env_spec, **FILM))
    policy.save_pretrained(tmp_path)
    to_original(tmp_path)
    states = {}
    for part in ("vision_backbone", "proprio_projector"):
        (file,) = (f for f in os.listdir(tmp_path) if part in f and "checkpoint" in f)
        assert file.endswith(".pt")
        states[part] = torch.load(tmp_path / file, weights_only=True)
    own = policy.actor.proprio_projector.state_dict()
    assert (
        states["proprio_projector"].keys()
        == own.keys()
        == {
            "fc1.weight",
            "fc1.bias",
            "fc2.weight",
            "fc2.bias",
        }
    )
    towers, block = states["vision_backbone"], "vision_backbone.featurizer.blocks.0"
    for name, shape in {
        f"{block}.block.attn.qkv.base_layer.weight": (144, 48),
        f"{block}.block.attn.qkv.base_layer.bias": (144,),
        f"{block}.block.attn.qkv.lora_A.default.weight": (32, 48),
        f"{block}.block.attn.qkv.lora_B.default.weight": (144, 32),
        f"{block}.block.norm1.weight": (48,),
        f"{block}.scale.weight": (48, 64),
        f"{block}.shift.bias": (48,),
    }.items():
        assert tuple(towers[name].shape) == shape, name
    assert "vision_backbone.featurizer.patch_embed.proj.weight" in towers
    lora = [name for name in towers if ".lora_" in name]
    assert lora and not any(".scale." in n or ".shift." in n or "patch_embed" in n for n in lora)
    assert not any(towers[name].any() for name in lora)
    assert_same(policy, policy_of(env_spec, tmp_path, **FILM), observe(env_spec, 3))


def test_files_of_the_original_classes_are_kept(env_spec, tmp_path):
    """Code, processor and settings of the model that training began with, also by a checkpoint of a
    checkpoint. Classes whose code is not there are no longer named, and nothing is taken through a
    link that leads out."""
    base = published(policy_of(env_spec), tmp_path / "base")
    content = json.loads((base / "config.json").read_text())
    maps = {
        "AutoConfig": "configuration_prismatic.OpenVLAConfig",
        "AutoModelForVision2Seq": "modeling_prismatic.OpenVLAForActionPrediction",
    }
    extra = {"auto_map": maps, "arch_specifier": "no-align+fused-gelu-mlp", "n_action_bins": 256}
    (base / "config.json").write_text(json.dumps({**content, **extra}))
    (base / "configuration_prismatic.py").write_text("# code")
    (base / "tokenizer_config.json").write_text("{}")
    path = base / "preprocessor_config.json"
    pixels = {**json.loads(path.read_text()), "processor_class": "PrismaticProcessor"}
    path.write_text(json.dumps(pixels))
    (tmp_path / "secret").write_text("x")
    (base / "added_tokens.json").symlink_to(tmp_path / "secret")
    policy_of(env_spec, base).save_pretrained(tmp_path / "one")
    policy_of(env_spec, tmp_path / "one").save_pretrained(tmp_path / "two")
    for folder in (tmp_path / "one", tmp_path / "two"):
        found = json.loads((folder / "config.json").read_text())
        assert found["arch_specifier"] == "no-align+fused-gelu-mlp"
        assert found["auto_map"] == {"AutoConfig": "configuration_prismatic.OpenVLAConfig"}
        assert (folder / "configuration_prismatic.py").read_text() == "# code"
        assert json.loads((folder / "preprocessor_config.json").read_text()) == pixels
        assert (folder / "tokenizer_config.json").exists()
        assert not (folder / "added_tokens.json").exists()


# -- full size ------------------------------------------------------------------------------------


def sparse(path: Path, shapes: dict[str, tuple[int, ...]], dtype: str, width: int) -> None:
    """A safetensors file with its header and, in place of its numbers, a hole."""
    header, place = {}, 0
    for name, shape in shapes.items():
        end = place + width * torch.Size(shape).numel()
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [place, end]}
        place = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + place)


def full_folder(folder: Path, shapes: dict[str, tuple[int, ...]]) -> None:
    """All weights of a network of full size in three shards with an index, as it is published."""
    names = list(shapes)
    third = len(names) // 3 + 1
    index = {}
    for number in range(3):
        part = names[number * third : (number + 1) * third]
        file = f"model-{number + 1:05d}-of-00003.safetensors"
        sparse(folder / file, {name: shapes[name] for name in part}, "BF16", 2)
        index |= dict.fromkeys(part, file)
    content = {"metadata": {}, "weight_map": index}
    (folder / "model.safetensors.index.json").write_text(json.dumps(content))


def test_the_published_network_of_full_size(tmp_path, refused):
    """7.54 billion weights by their names and shapes alone, 15 GB that take no room: accepted; one
    of another shape is refused. The network itself, on the meta device, has just those."""
    size = SIZES["openvla_7b"]
    with torch.device("meta"):
        network = PrismaticModel(size)
    shapes = {name: tuple(p.shape) for name, p in network.named_parameters()}
    assert shapes == network_shapes(size) and len(shapes) > 900
    folders = Folders(tmp_path, tmp_path, None)
    resolved = Resolved(size, folders, 7, tuple(range(7)), 1, values=0, prompt_length=32)
    full_folder(tmp_path, shapes)
    total = sum(file.stat().st_size for file in tmp_path.glob("*.safetensors"))
    assert total / 1e9 == pytest.approx(15.08, abs=0.01)
    assert sum(file.stat().st_blocks for file in tmp_path.glob("*")) * 512 < 1e6
    check_folders(folders, resolved, {})
    full_folder(tmp_path, {**shapes, "projector.fc2.weight": (4096, 4096)})
    with refused(CheckpointError, "projector.fc2.weight", "[4096, 4096]"):
        check_folders(folders, resolved, {})


def test_adapters_of_full_size(tmp_path):
    """RLinf's, of rank 32 on all of its targets, with their copy of the output layer."""
    size = SIZES["openvla_7b"]
    weights = network_shapes(size)
    shapes = {f"base_model.model.{n}": s for n, s in adapter_shapes(weights, 32).items()}
    copied = "base_model.model.language_model.lm_head.base_layer.weight"
    shapes[copied] = weights["language_model.lm_head.weight"]
    sparse(tmp_path / "adapter_model.safetensors", shapes, "BF16", 2)
    content = {
        "peft_type": "LORA",
        "r": 32,
        "lora_alpha": 32,
        "target_modules": [*LORA_TARGETS],
        "base_model_name_or_path": "openvla/openvla-7b",
    }
    (tmp_path / "adapter_config.json").write_text(json.dumps(content))
    for rank in (None, 32):
        adapters = read_adapters(tmp_path, weights, rank, component_shapes={})
        assert adapters.copies == {"language_model.lm_head.weight": copied}
        assert len(adapters.modules) * 2 + 1 == len(shapes)


def test_film_of_full_size(env_spec):
    """OpenVLA-OFT's towers with FiLM, 0.73 billion weights and FiLM's 0.45 billion."""
    config = OpenVLAOFTConfig(implement_version="official", use_film=True, add_value_head=False)
    (part,) = resolve(config, env_spec).components
    billions = sum(torch.Size(shape).numel() for shape in part.shapes.values()) / 1e9
    assert billions == pytest.approx(0.303 + 0.428 + 0.45, abs=0.02)
    assert part.shapes["vision_backbone.fused_featurizer.blocks.26.scale.weight"] == (1152, 4096)


def test_shards_that_we_write_are_cut_below_five_gigabytes():
    assert checkpoint.SHARD_BYTES == 5 * 10**9
