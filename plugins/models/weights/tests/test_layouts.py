"""Where weights are in a folder: each layout, and what is refused with which command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from rlcore_weights.layouts import full_scale, has_weights, stored_file, stored_weights
from rlcore_weights.tensors import read_stored
from safetensors.torch import save_file

from rlcore.contracts.errors import CheckpointError

WEIGHTS = {"a.weight": torch.arange(6.0).reshape(2, 3), "b.bias": torch.ones(4)}


def found(folder: Path) -> dict[str, torch.Tensor]:
    assert has_weights(folder)
    stored = stored_weights(folder, hint="none")
    assert stored.headers.keys() == stored.places.keys()
    return dict(read_stored(stored, stored.headers, scale=full_scale))


def same(tensors: dict[str, torch.Tensor]) -> bool:
    return tensors.keys() == WEIGHTS.keys() and all(
        torch.equal(tensors[name], WEIGHTS[name]) for name in WEIGHTS
    )


def shards(folder: Path) -> Path:
    """As transformers and RLinf's converter write them."""
    names = {name: f"model-{i:05d}-of-00002.safetensors" for i, name in enumerate(WEIGHTS, 1)}
    for name, file in names.items():
        save_file({name: WEIGHTS[name]}, folder / file)
    index = {"metadata": {"total_size": 40}, "weight_map": names}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def test_one_file_and_shards(tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "more").mkdir()
    save_file(WEIGHTS, tmp_path / "one" / "model.safetensors")
    assert same(found(tmp_path / "one"))
    assert same(found(shards(tmp_path / "more")))


@pytest.mark.parametrize(
    ("place", "wrapper", "inner"),
    [
        ("", "", ""),
        ("model_state_dict", "module.", ""),
        ("actor/model_state_dict", "_orig_mod.", "_checkpoint_wrapped_module."),
        ("", "_fsdp_wrapped_module.module.", "_fsdp_wrapped_module."),
    ],
)
def test_full_weights_of_a_run(tmp_path, place, wrapper, inner):
    """As RLinf's trainer writes them below `global_step_N/`, and wrappers name them."""
    (tmp_path / place).mkdir(parents=True, exist_ok=True)
    named = {name.replace(".", f".{inner}"): tensor for name, tensor in WEIGHTS.items()}
    state = {f"{wrapper}{name}": tensor for name, tensor in named.items()}
    torch.save(state, tmp_path / place / "full_weights.pt")
    assert same(found(tmp_path))


def test_the_same_weight_twice_is_refused(tmp_path, refused):
    torch.save({"a": torch.ones(1), "module.a": torch.ones(1)}, tmp_path / "full_weights.pt")
    with refused(CheckpointError, "module.a"):
        stored_weights(tmp_path, hint="")


def test_a_missing_shard_and_one_of_another_checkpoint_are_refused(tmp_path, refused):
    first, second = sorted(shards(tmp_path).glob("*.safetensors"))
    kept = second.read_bytes()
    second.unlink()
    with refused(CheckpointError, second.name):
        stored_weights(tmp_path, hint="")
    second.write_bytes(first.read_bytes())
    with refused(CheckpointError, second.name):
        stored_weights(tmp_path, hint="")
    second.write_bytes(kept)
    assert same(found(tmp_path))


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        "{",
        '{"weight_map": 3}',
        '{"weight_map": {"a": 3}}',
        '{"weight_map": {"a": "../x.safetensors"}}',
    ],
)
def test_an_index_of_other_content_is_refused(tmp_path, content, refused):
    (tmp_path / "model.safetensors.index.json").write_text(content)
    with refused(CheckpointError, "index.json", text=content != "{"):  # json's own words
        stored_weights(tmp_path, hint="")


def test_a_folder_without_weights_is_refused_with_the_callers_hint(tmp_path, refused):
    assert not has_weights(tmp_path)
    with refused(CheckpointError, "model.safetensors", "give another folder"):
        stored_weights(tmp_path, hint="give another folder")


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    "files",
    [
        ["pytorch_model.bin"],
        ["pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"],
        ["step-1000.pt"],
    ],
)
@pytest.mark.parametrize("around", [None, "model"])
def test_other_formats_name_the_command_that_converts_them(tmp_path, files, around, refused):
    (tmp_path / "optimizer.pt").write_bytes(b"")  # lies beside them, and is not asked
    for number, file in enumerate(files):
        names = list(WEIGHTS)[number : None if number else 2 - len(files) + 1]
        state = {name: WEIGHTS[name] for name in names}
        torch.save(state if around is None else {around: state, "step": 3}, tmp_path / file)
    with refused(CheckpointError, files[0]) as caught:
        stored_weights(tmp_path, hint="none")
    command = caught.value.hint.partition(": ")[2].replace("python", sys.executable, 1)
    subprocess.run(command, shell=True, check=True)
    assert same(found(tmp_path))


@pytest.mark.parametrize("place", ["", "actor"])
def test_a_distributed_checkpoint_names_its_converter(tmp_path, place, refused):
    parallel = tmp_path / place / "dcp_checkpoint"
    parallel.mkdir(parents=True)
    target = tmp_path / place / "model_state_dict" / "full_weights.pt"
    command = f"convert_dcp_to_pt --dcp_path {parallel} --output_path {target}"
    with refused(CheckpointError, command):
        stored_weights(tmp_path, hint="none")
    (parallel / "__0_0.distcp").touch()  # the checkpoint's own folder is given
    with refused(CheckpointError, command, f"actor.model.model_path={parallel.parent}"):
        stored_weights(parallel, hint="none")
    target.parent.mkdir()
    torch.save(WEIGHTS, target)  # what the converter leaves there
    assert same(found(tmp_path)) and same(found(parallel.parent))


@pytest.mark.parametrize("file", ["pytorch_model.bin", "step-1000.pt"])
def test_a_conversion_that_could_run_code_is_not_advised(tmp_path, file, refused):
    torch.save({"a": torch.ones(1), "layer": torch.nn.Linear(1, 1)}, tmp_path / file)
    with refused(CheckpointError, file):
        stored_weights(tmp_path, hint="none")


@pytest.mark.parametrize(
    ("steps", "inside"),
    [
        (["global_step_9", "global_step_10"], "actor/model_state_dict"),
        (["checkpoints/global_step_9", "checkpoints/global_step_10"], "actor/model_state_dict"),
        (["run/9", "run/10"], ""),
        (["checkpoints/000009/pretrained_model", "checkpoints/000010/pretrained_model"], ""),
    ],
)
def test_the_folder_of_a_whole_run_names_its_last_checkpoint(tmp_path, steps, inside, refused):
    """As RLinf, openpi and LeRobot name them."""
    for step in steps:
        (tmp_path / step / inside).mkdir(parents=True)
        torch.save(WEIGHTS, tmp_path / step / inside / "full_weights.pt")
    with refused(CheckpointError, f"actor.model.model_path={tmp_path / steps[-1]}"):
        stored_weights(tmp_path, hint="none")


def test_a_checkpoint_of_a_run_names_its_policy_whatever_its_replay_looks_like(tmp_path, refused):
    (tmp_path / "actor").mkdir()
    shards(tmp_path / "actor")
    (tmp_path / "replay-000000-00001-of-00001.safetensors").touch()
    with refused(CheckpointError, f"actor.model.model_path={tmp_path / 'actor'}"):
        stored_weights(tmp_path, hint="none")


def test_shards_without_their_index_are_refused(tmp_path, refused):
    (shards(tmp_path) / "model.safetensors.index.json").unlink()
    with refused(CheckpointError, "model.safetensors.index.json"):
        stored_weights(tmp_path, hint="none")


def weights(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    write = save_file if path.suffix == ".safetensors" else torch.save
    write(WEIGHTS, path)
    return path


@pytest.mark.parametrize(
    "stale",
    [
        "model.safetensors",
        "model.fp16.safetensors",
        "model-00003-of-00003.safetensors",
        "pytorch_model.bin",
        "pytorch_model.bin.index.json",
        "model.safetensors.index.fp16.json",
        "full_weights.pt",
        "actor/model_state_dict/full_weights.pt",
    ],
)
def test_two_sets_of_weights_are_refused(tmp_path, stale, refused):
    """As a second training or another converter leaves them in a folder: readers differ in which
    they take, transformers the single file, whatever the index says."""
    weights(shards(tmp_path) / stale)
    with refused(CheckpointError, "model.safetensors.index.json", stale):
        stored_weights(tmp_path, hint="")
    (tmp_path / stale).unlink()
    assert same(found(tmp_path))


@pytest.mark.parametrize("lost", ["*-of-*", "model.safetensors.index.json"])
def test_a_part_of_another_set_beside_one_file_is_refused(tmp_path, refused, lost):
    for file in shards(tmp_path).glob(lost):
        file.unlink()
    left = [file.name for file in tmp_path.iterdir()]
    weights(tmp_path / "model.safetensors")
    with refused(CheckpointError, "model.safetensors", *left):
        stored_weights(tmp_path, hint="")


def test_two_sets_that_would_have_to_be_converted_are_refused(tmp_path, refused):
    for name in ("pytorch_model.bin", "pytorch_model-00001-of-00001.bin"):
        weights(tmp_path / name)
    with refused(CheckpointError, "pytorch_model-00001-of-00001.bin"):
        stored_weights(tmp_path, hint="")


@pytest.mark.parametrize(
    "name", ["adapter_config.json", "adapter_model.safetensors", "adapter_model.bin"]
)
def test_adapters_beside_weights_that_have_none_are_refused(tmp_path, name, refused):
    weights(tmp_path / "model.safetensors")
    (tmp_path / name).write_text("{}")
    with refused(CheckpointError, name):
        stored_weights(tmp_path, hint="")
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / name).rename(tmp_path / "adapter_config.json")
    torch.save(  # their own, not merged: the file says how they are scaled
        {
            "a.base_layer.weight": torch.ones(2, 2),
            "a.lora_A.default.weight": torch.ones(1, 2),
            "a.lora_B.default.weight": torch.ones(2, 1),
        },
        tmp_path / "full_weights.pt",
    )
    assert stored_weights(tmp_path, hint="").adapters.keys() == {"a.weight"}


def test_more_tensors_than_any_network_has_are_refused(tmp_path, monkeypatch, refused):
    monkeypatch.setattr("rlcore.files.safetensors_header.MOST_TENSORS", 1)
    weights(tmp_path / "model.safetensors")
    with refused(CheckpointError, "2 tensors"):
        stored_weights(tmp_path, hint="")
    pickled = tmp_path / "full_weights.pt"
    torch.save({"a": torch.ones(1), "b": torch.ones(1)}, pickled)
    with refused(CheckpointError, pickled.name):
        stored_file(pickled)


def test_adapters_that_were_not_merged(tmp_path):
    """As peft names them in the state of a model that it has wrapped: W + alpha / r B A, here with
    alpha / r = 1/2, so 1 + 1/2 (2 * 3 + 2 * 3) = 7. A convolution's B has a kernel of 1."""
    peft = "base_model.model."
    conv = {
        "base_layer.weight": (5, 3, 4, 4),
        "lora_A.default.weight": (2, 3, 4, 4),
        "lora_B.default.weight": (5, 2, 1, 1),
    }
    state = {
        f"{peft}up.base_layer.weight": torch.ones(5, 3, dtype=torch.bfloat16),
        f"{peft}up.base_layer.bias": torch.ones(5),
        f"{peft}up.lora_A.default.weight": torch.full((2, 3), 3.0),
        f"{peft}up.lora_B.default.weight": torch.full((5, 2), 2.0),
        **{f"{peft}conv.{name}": torch.ones(shape) for name, shape in conv.items()},
        f"{peft}plain.weight": torch.ones(2),
        f"{peft}head.original_module.weight": torch.zeros(2),
        f"{peft}head.modules_to_save.default.weight": torch.ones(2),
    }
    torch.save(state, tmp_path / "full_weights.pt")
    stored = stored_weights(tmp_path, hint="")
    assert stored.peft and {n: low.rank for n, low in stored.adapters.items()} == {
        "up.weight": 2,
        "conv.weight": 2,
    }
    tensors = dict(read_stored(stored, stored.headers, scale=lambda rank: 1 / rank))
    assert set(tensors) == {"up.weight", "up.bias", "conv.weight", "plain.weight", "head.weight"}
    assert torch.equal(tensors["up.weight"], torch.full((5, 3), 7.0, dtype=torch.bfloat16))
    assert torch.equal(tensors["conv.weight"], torch.full((5, 3, 4, 4), 2.0))
    assert torch.equal(tensors["head.weight"], torch.ones(2))


@pytest.mark.parametrize(
    "change",
    [
        {"up.lora_B.default.weight": None},
        {"up.base_layer.weight": None},
        {"up.lora_B.default.weight": torch.ones(5, 3)},
        {"up.lora_A.default.weight": torch.ones(2, 4)},
    ],
)
def test_half_an_adapter_is_refused(tmp_path, change, refused):
    state = {
        "up.base_layer.weight": torch.ones(5, 3),
        "up.lora_A.default.weight": torch.ones(2, 3),
        "up.lora_B.default.weight": torch.ones(5, 2),
    } | change
    torch.save({n: t for n, t in state.items() if t is not None}, tmp_path / "full_weights.pt")
    with refused(CheckpointError, "up.weight"):
        stored_weights(tmp_path, hint="")
