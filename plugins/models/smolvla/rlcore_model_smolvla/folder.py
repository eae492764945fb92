"""Read, write and export a policy's folder.

    model.safetensors                    the network, under LeRobot's names
    config.json                          LeRobot's settings, and rlcore's own (lerobot.py)
    policy_{pre,post}processor.json      processor steps, with their statistics beside them
    tokenizer.json                       tokenizer of the prompt
    rl_heads.safetensors                 critic and noise head, if there are any

`rlcore export RUN DEST --layout lerobot` leaves out what LeRobot does not know.
"""

from __future__ import annotations

import dataclasses
import logging
import shutil
from pathlib import Path
from typing import Any

from rlcore_flow.actor import FlowActor
from rlcore_flow.head_shapes import HEADS_FILE, heads_trained_with
from rlcore_flow.lerobot import AFTER, BEFORE
from rlcore_flow.lerobot_writing import (
    DEVICE,
    RENAME_AND_BATCH,
    normalizing_steps,
    policy_config,
    tokenizer_step,
    write_json,
    write_processors,
)
from rlcore_flow.stored import fill_heads, fill_network, heads, save_heads
from rlcore_flow.vision import SiglipTower
from rlcore_weights.layouts import stored_file
from rlcore_weights.tensors import MergedWeights, plain_parameters, shapes_of, write_weights

from rlcore.contracts.errors import ConfigError
from rlcore.files.damaged_files import damaged_on, read_mapping
from rlcore_model_smolvla.layout import file_name, network_keys
from rlcore_model_smolvla.lerobot import CONFIG_FILE, NEW_LINE, OWN, TYPE
from rlcore_model_smolvla.network import SmolVLANetwork
from rlcore_model_smolvla.processor import Processor
from rlcore_model_smolvla.settings import SmolVLAModelConfig
from rlcore_model_smolvla.sizes import SIZES, NetworkSize
from rlcore_model_smolvla.tokenizer import TOKENIZER_FILE
from rlcore_model_smolvla.weight_files import check_head, check_network, find_weights

_WEIGHTS = "model.safetensors"
_log = logging.getLogger(__name__)


def load_weights(folder: Path, actor: FlowActor[SmolVLANetwork]) -> None:
    """Load network and heads. Heads that the folder lacks keep their initial weights (logged).

    Raises:
        CheckpointError: a file is missing, damaged, or does not fit.
    """
    stored = find_weights(folder)
    network = actor.network
    check_network(folder, stored.headers, shapes_of(plain_parameters(network)))
    fill_network(network, stored, network_keys(stored.headers))
    tower = network.vision_tower
    if isinstance(tower, SiglipTower):
        tower.fill_buffers()
    path = folder / HEADS_FILE
    fresh = list(heads(actor))
    if fresh and path.exists():
        stored_heads = stored_file(path)
        names = {name: name for name in stored_heads.headers}
        fresh = fill_heads(
            actor,
            stored_heads,
            names,
            lambda head, shapes: check_head(path, stored_heads.headers, head, shapes),
        )
    if fresh:
        _log.info("%s has no %s: starting with fresh weights", folder, " and ".join(fresh))


def save(
    folder: Path,
    config: SmolVLAModelConfig,
    actor: FlowActor[SmolVLANetwork],
    processor: Processor,
) -> None:
    """Write the folder, with low-rank adapters merged."""
    folder.mkdir(parents=True, exist_ok=True)
    network = actor.network
    tensors = {name: value.detach() for name, value in plain_parameters(network).items()}
    tensors |= MergedWeights(network)
    write_weights(folder / _WEIGHTS, {file_name(name): tensor for name, tensor in tensors.items()})
    save_heads(actor, folder)
    processor.tokenizer.save(folder)
    content = _lerobot_config(config, processor)
    before, after = _steps(content)
    write_processors(folder, before, after, processor.normalizer)
    content[OWN] = {
        "size": dataclasses.asdict(processor.resolved.size),
        "heads_trained_with": heads_trained_with(
            config.smolvla, has_critic=bool(config.add_value_head)
        ),
    }
    write_json(folder / CONFIG_FILE, content)


def write_lerobot(folder: Path, target: Path) -> None:
    """Write the policy that rlcore saved in `folder` to the empty folder `target`, for LeRobot.

    Raises:
        ConfigError: LeRobot does not build a network of this size.
        CheckpointError: a file of `folder` is missing or damaged.
    """
    path = folder / CONFIG_FILE
    content = read_mapping(path)
    with damaged_on(path):
        size = NetworkSize(**content.pop(OWN)["size"])
    published = SIZES[TYPE]
    fixed = ("vision", "patch_size", "shuffle", "heads", "head_dim", "vlm_width", "vocab")
    if any(getattr(size, name) != getattr(published, name) for name in fixed):
        raise ConfigError(
            "LeRobot builds SmolVLA on SmolVLM2-500M only, and this policy has another network",
            hint="export it without --layout",
        )
    statistics = [file.name for file in folder.glob("policy_*processor_step_*.safetensors")]
    for name in (_WEIGHTS, TOKENIZER_FILE, BEFORE, AFTER, *statistics):
        shutil.copyfile(folder / name, target / name)
    write_json(target / CONFIG_FILE, content)


def _lerobot_config(config: SmolVLAModelConfig, processor: Processor) -> dict[str, Any]:
    """Return LeRobot's `config.json`; LeRobot has defaults for the rest."""
    resolved = processor.resolved
    size = resolved.size
    every = size.self_attention_every
    return {
        **policy_config(
            TYPE,
            resolved.cameras,
            env=(resolved.state_dim, resolved.action_dim),
            network=(size.state_dim, size.action_dim),
            horizon=size.action_horizon,
            executed=config.num_action_chunks,
            prompt=size.max_token_len,
            normalizer=processor.normalizer,
        ),
        "resize_imgs_with_padding": [size.image_size, size.image_size],
        "num_steps": config.smolvla.num_steps,
        "vlm_model_name": resolved.published.vlm,
        "load_vlm_weights": False,
        "attention_mode": "self_attn" if every == 1 else "cross_attn",
        "self_attn_every_n_layers": every,
        "num_vlm_layers": size.depth,
        "expert_width_multiplier": size.expert_width / size.vlm_width,
        "pad_language_to": "max_length",
    }


def _steps(config: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the settings of the steps before and after the network by name, in LeRobot's order."""
    normalize, unnormalize = normalizing_steps(config)
    before = {
        **RENAME_AND_BATCH,
        NEW_LINE: {},
        **tokenizer_step(
            config["vlm_model_name"], config["tokenizer_max_length"], config["pad_language_to"]
        ),
        **DEVICE,
        **normalize,
    }
    return before, {**unnormalize, **DEVICE}


LAYOUTS = {"lerobot": write_lerobot}
"""Exporters of a saved policy, by the name of the layout (`--layout`)."""
