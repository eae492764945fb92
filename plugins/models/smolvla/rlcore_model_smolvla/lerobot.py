"""Read the settings of a folder of SmolVLA: LeRobot's, or one that rlcore saved. No torch.

:mod:`rlcore_flow.lerobot` lists the files of LeRobot. rlcore writes the same ones. In
its `config.json` there is one more entry, `rlcore`: the whole size of the network, which may be one
that LeRobot does not build, and the settings that the heads were trained with.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlcore_flow.lerobot import (
    AFTER,
    BEFORE,
    COMMON_SETTINGS,
    COMMON_STEPS,
    NORMALIZE,
    TOKENIZE,
    UNNORMALIZE,
    Scaled,
    Supported,
    check_settings,
    read_cameras,
    read_scaled,
    read_steps,
    require,
)

from rlcore.contracts.errors import CheckpointError
from rlcore.files.damaged_files import damaged_error, damaged_on, read_mapping
from rlcore_model_smolvla.sizes import SIZES, WHOLE_DEPTH, expert_mlp

CONFIG_FILE = "config.json"
TYPE = "smolvla"
OWN = "rlcore"
"""The entry of `config.json` that only rlcore writes."""
NEW_LINE = "smolvla_new_line_processor"
VLM_NAME = "HuggingFaceTB/SmolVLM2-500M-Video-Instruct"
"""Name on the hub of the VLM that SmolVLA begins with; LeRobot takes the tokenizer from it."""
SLOTS = ("camera1", "camera2", "camera3")
"""Camera names of the base model."""

_STEPS: Supported = {
    **COMMON_STEPS,
    NEW_LINE: {},
    TOKENIZE: {
        "max_length": None,
        "task_key": "task",
        "padding_side": "right",
        "padding": "longest|max_length",  # padding has no effect
        "truncation": "True",
        "tokenizer_name": None,
    },
}
# `prefix_length`, `pad_language_to` and `empty_cameras` add padding, which has no effect; the
# rest of what is not in COMMON_SETTINGS is read here, or is about training.
_SETTINGS = re.compile(
    f"{COMMON_SETTINGS}|{OWN}|resize_imgs_with_padding|num_(steps|vlm_layers|expert_layers)|"
    "attention_mode|self_attn_every_n_layers|expert_width_multiplier|vlm_model_name|"
    "load_vlm_weights|prefix_length|pad_language_to|fine_tune_vision_encoder|vision_encoder_.*"
)
# Settings that change what the network computes, and the only value that this network supports.
_FIXED = {
    "n_obs_steps": 1,
    "min_period": 4e-3,
    "max_period": 4.0,
    "add_image_special_tokens": False,
    "adapt_to_pi_aloha": False,
    "use_delta_joint_actions_aloha": False,
    "use_peft": False,
    "rtc_config": None,
}
_LARGEST = 2**14
_COUNTS = ("image_size", "depth", "action_dim", "state_dim", "action_horizon", "max_token_len")


@dataclass(frozen=True)
class Published:
    """The settings that a folder states. Without a folder they are missing.

    Attributes:
        sizes: sizes of the network, by the names of :class:`NetworkSize`: all of them if rlcore
            saved the folder, else those that LeRobot's settings determine.
        cameras: number of cameras of the training; None: any, as for the base model.
        state, actions: how states and actions are normalised; None without a folder.
        vlm: name on the hub, or path, of the VLM whose tokenizer is used.
        heads: settings that each head was trained with.
    """

    sizes: Mapping[str, Any] = field(default_factory=dict)
    cameras: int | None = None
    state: Scaled | None = None
    actions: Scaled | None = None
    vlm: str = VLM_NAME
    heads: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def read_published(folder: Path) -> Published:
    """Read the settings of a folder.

    Raises:
        CheckpointError: the folder or its `config.json` is missing or damaged, or describes a
            policy that is not supported.
    """
    path = folder / CONFIG_FILE
    if not folder.is_dir():
        raise CheckpointError(
            f"actor.model.model_path {str(folder)!r} is not a folder",
            hint="give the folder of a checkpoint, or null to start from random weights",
        )
    content = read_mapping(path)
    if content.get("type") != TYPE:
        raise CheckpointError(
            f"{path} is of LeRobot's policy {content.get('type')!r}",
            hint=f"this model reads its policy {TYPE}",
        )
    check_settings(path, _without_idle_chunking(content), _SETTINGS, _FIXED)
    before = read_steps(folder / BEFORE, _STEPS)
    after = read_steps(folder / AFTER, _STEPS)
    own = content.get(OWN) or {}
    with damaged_on(path):
        sizes = dict(own["size"]) if own else _sizes(path, content, before.get(TOKENIZE, {}))
        heads = dict(own.get("heads_trained_with", {}))
    # cameras of a policy that rlcore saved are its own, even if they are called like the slots
    cameras = read_cameras(path, content, () if own else SLOTS)
    return Published(
        sizes=sizes,
        cameras=None if cameras is None else len(cameras),
        state=read_scaled(path, content, before.get(NORMALIZE), "STATE"),
        actions=read_scaled(path, content, after.get(UNNORMALIZE), "ACTION"),
        vlm=str(
            before.get(TOKENIZE, {}).get("tokenizer_name")
            or content.get("vlm_model_name")
            or VLM_NAME
        ),
        heads=heads,
    )


def _without_idle_chunking(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings without real-time chunking (`rtc_config`) if it is switched off.

    `enabled` must be stated: LeRobot 0.6 changed its default to true.
    """
    chunking = content.get("rtc_config")
    idle = isinstance(chunking, dict) and chunking.get("enabled") is False
    return {name: value for name, value in content.items() if not (idle and name == "rtc_config")}


def _sizes(path: Path, content: Mapping[str, Any], tokenize: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sizes that the settings of LeRobot determine.

    Raises:
        CheckpointError: a value is malformed, or is not supported.
    """
    resolution = content.get("resize_imgs_with_padding", [512, 512])
    side = resolution[0] if isinstance(resolution, list) and resolution else resolution
    require(path, "resize_imgs_with_padding", resolution, [side, side])
    length = content.get("tokenizer_max_length", 48)
    if tokenize.get("max_length", length) != length:
        raise CheckpointError(
            f"{path} has tokenizer_max_length {length}, and {BEFORE} has max_length "
            f"{tokenize['max_length']}",
            hint=f"LeRobot takes that of {BEFORE}: write it into {path.name} too",
        )
    depth = content.get("num_vlm_layers", 16)
    width = SIZES[TYPE].vlm_width
    expert = int(width * float(content.get("expert_width_multiplier", 0.75)))
    sizes = {
        "image_size": side,
        "depth": depth if depth != 0 and depth != -1 else WHOLE_DEPTH,
        "expert_width": expert,
        "expert_mlp": expert_mlp(expert),
        "self_attention_every": _self_attention(path, content),
        "action_dim": content.get("max_action_dim", 32),
        "state_dim": content.get("max_state_dim", 32),
        "action_horizon": content.get("chunk_size", 50),
        "max_token_len": length,
    }
    for name in _COUNTS:
        value = sizes[name]
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _LARGEST:
            raise damaged_error(
                path, f"{name} must be a whole number in 1..{_LARGEST}, it is {value!r}"
            )
    layers = content.get("num_expert_layers", -1)
    if layers > 0:  # LeRobot's expert may have fewer layers than its VLM
        require(path, "num_expert_layers", layers, sizes["depth"])
    return sizes


def _self_attention(path: Path, content: Mapping[str, Any]) -> int:
    """Return n of "every n-th layer has self-attention"; 1: all have, 0: none has."""
    mode = content.get("attention_mode", "cross_attn")
    if mode == "self_attn":
        return 1
    require(path, "attention_mode", mode, "cross_attn")
    return max(0, int(content.get("self_attn_every_n_layers", 2)))
