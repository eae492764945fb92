"""All names and shapes of π0 (3.24 B) and π0.5 (3.35 B), in files of full length without bytes.

Names and shapes are those of the originals on the meta device (see originals.py); the files have a
header and a hole, so nothing is downloaded, computed or kept in memory.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import replace
from math import prod
from pathlib import Path

import pytest
import torch
from originals import (
    ASSET,
    LeRobotPolicy,
    PI0Pytorch,
    lerobot_config,
    lerobot_steps,
    statistics,
    write_json,
    write_norm_stats,
)
from rlcore_model_openpi.layout import network_shapes
from rlcore_model_openpi.pretrained import unfilled_network
from rlcore_model_openpi.settings import OpenPIConfig, OpenPIModelConfig
from rlcore_model_openpi.sizes import SIZES
from rlcore_model_openpi.spec import policy_spec
from rlcore_model_openpi.tokenizer import train_tokenizer
from rlcore_model_openpi.weight_files import check_network
from rlcore_weights.headers import count
from rlcore_weights.layouts import stored_weights

from rlcore.contracts.errors import CheckpointError

Shapes = dict[str, tuple[int, ...]]
EMBEDDING = "paligemma_with_expert.paligemma.model.language_model.embed_tokens.weight"
LM_HEAD = "paligemma_with_expert.paligemma.lm_head.weight"
UNUSED = "paligemma_with_expert.gemma_expert.lm_head.weight"


@pytest.fixture(scope="module", params=["pi0", "pi05"])
def built(request) -> tuple[str, Shapes]:
    """Name of the size, and all names and shapes of openpi's `PI0Pytorch`."""
    with torch.device("meta"):
        model = PI0Pytorch(SIZES[request.param])
    return request.param, {name: tuple(t.shape) for name, t in model.state_dict().items()}


@pytest.fixture
def name(built) -> str:
    return built[0]


@pytest.fixture
def shapes(built) -> Shapes:
    """As openpi's `save_model` leaves them: of two tied tensors the first by name."""
    return {name: shape for name, shape in built[1].items() if name != EMBEDDING}


def write_hole(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """A safetensors file of bfloat16 tensors that takes no room on the disk."""
    header, end = {}, 0
    for name, shape in shapes.items():
        begin, end = end, end + 2 * prod(shape)
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)
    assert path.stat().st_blocks * 512 < 2**22  # a header and a hole


def write_shards_of_holes(folder: Path, shapes: Shapes, most: int = 4 * 2**30) -> list[str]:
    """As RLinf's converter plans them: by name, at most 4 GiB each."""
    shards: list[Shapes] = [{}]
    for name, shape in sorted(shapes.items()):
        if shards[-1] and 2 * (sum(map(prod, shards[-1].values())) + prod(shape)) > most:
            shards.append({})
        shards[-1][name] = shape
    files = [f"model-{n:05d}-of-{len(shards):05d}.safetensors" for n in range(1, len(shards) + 1)]
    weight_map = {}
    for file, shard in zip(files, shards, strict=True):
        write_hole(folder / file, shard)
        weight_map |= dict.fromkeys(shard, file)
    total = sum(map(prod, shapes.values())) * 2
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    write_json(folder / "model.safetensors.index.json", index)
    return files


def complete(folder: Path, env_spec) -> None:
    """Tokenizer and statistics."""
    (folder / "paligemma_tokenizer.model").write_bytes(
        train_tokenizer(env_spec.all_instructions, 512)
    )
    write_norm_stats(folder / "assets" / ASSET, statistics(env_spec))


def settings(folder: Path, name: str) -> OpenPIModelConfig:
    """As the published recipes: size null is the generation's."""
    return OpenPIModelConfig(
        model_path=str(folder),
        num_action_chunks=5,
        openpi=OpenPIConfig(config_name=f"{name}_metaworld", size=None),
    )


def assert_accepted(folder: Path, name: str, env_spec) -> None:
    """Before any worker starts, and by the network itself on the meta device."""
    spec = policy_spec(settings(folder, name), env_spec)
    assert spec.parameters == count(network_shapes(SIZES[name]))
    network = unfilled_network(SIZES[name])
    wanted = {name: tuple(each.shape) for name, each in network.named_parameters()}
    check_network(folder, stored_weights(folder, hint="").headers, wanted)


def test_counts(name, shapes):
    """By hand. SigLIP: 27 layers of 16 tensors, 3 embeddings, 2 of the last norm; projector: 2;
    Gemma: 18 layers of 9, a norm and the embedding; the expert the same, with its `lm_head` for
    the embedding, and in π0.5 2 for each of 37 norms; projections: 4 of actions, and 6 of state and
    time, in π0.5 4 of time."""
    gemma = 18 * 9 + 2
    tensors = 27 * 16 + 3 + 2 + 2 + gemma + gemma + (37 + 4 + 4 if name == "pi05" else 4 + 6)
    assert len(shapes) == tensors == (812 if name == "pi05" else 777)
    unused = 257_152 * 1024
    assert prod(shapes[UNUSED]) == unused == 263_323_648
    total = sum(map(prod, shapes.values())) - unused
    assert total == count(network_shapes(SIZES[name]))
    assert total == pytest.approx(3.353e9 if name == "pi05" else 3.238e9, abs=1e6)


def test_openpi(tmp_path, name, shapes, env_spec):
    write_hole(tmp_path / "model.safetensors", shapes)
    complete(tmp_path, env_spec)
    config = {
        "action_dim": 32,
        "action_horizon": 50,
        "paligemma_variant": "gemma_2b",
        "action_expert_variant": "gemma_300m",
        "precision": "bfloat16",
    }
    write_json(tmp_path / "config.json", config)
    assert_accepted(tmp_path, name, env_spec)


def test_shards_of_rlinf(tmp_path, name, built, env_spec, refused):
    """With both names of the tied embedding, and a critic: 8.1 or 8.3 GB in shards of 4.3 GB."""
    head = {"mlp.0": (512, 1024), "mlp.2": (256, 512), "mlp.4": (128, 256), "mlp.6": (1, 128)}
    critic = {f"value_head.{layer}.weight": shape for layer, shape in head.items()}
    critic |= {f"value_head.{layer}.bias": shape[:1] for layer, shape in head.items()}
    files = write_shards_of_holes(tmp_path, built[1] | critic)
    assert len(files) == 2
    complete(tmp_path, env_spec)
    assert_accepted(tmp_path, name, env_spec)
    with_critic = replace(settings(tmp_path, name), add_value_head=True)
    policy_spec(with_critic, env_spec)
    (tmp_path / files[1]).unlink()
    with refused(CheckpointError, files[1]):
        policy_spec(settings(tmp_path, name), env_spec)


def test_lerobot(tmp_path, name, shapes, env_spec):
    """As `lerobot/pi0_base` and `lerobot/pi05_base`: no statistics; and a fine-tuned one."""
    write_hole(tmp_path / "model.safetensors", {f"model.{n}": s for n, s in shapes.items()})
    complete(tmp_path, env_spec)
    config = lerobot_config(SIZES[name], env_spec)
    write_json(tmp_path / "config.json", config)
    for file, steps in zip(("pre", "post"), lerobot_steps(config), strict=True):
        content = {"name": f"policy_{file}processor", "steps": steps}
        write_json(tmp_path / f"policy_{file}processor.json", content)
    assert_accepted(tmp_path, name, env_spec)


def test_lerobot_names_are_those_of_its_policy(built):
    """The module around the network adds one level."""
    name, shapes = built
    with torch.device("meta"):
        policy = LeRobotPolicy(PI0Pytorch(SIZES[name]))
    assert policy.state_dict().keys() == {f"model.{each}" for each in shapes}


def test_one_wrong_shape_among_all(tmp_path, name, shapes, env_spec, refused):
    wrong = "paligemma_with_expert.gemma_expert.model.layers.17.mlp.down_proj.weight"
    write_hole(tmp_path / "model.safetensors", shapes | {wrong: (1024, 4095)})
    complete(tmp_path, env_spec)
    with refused(CheckpointError, "layers.17.mlp.down_proj.weight", "[1024, 4095]"):
        policy_spec(settings(tmp_path, name), env_spec)
