"""Read the settings and statistics of LeRobot's checkpoint folders of π0 and π0.5. No torch.

:mod:`rlcore_flow.lerobot` lists the files, and reads what other policies' folders have too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlcore_flow.lerobot import (
    ABSOLUTE,
    AFTER,
    BEFORE,
    COMMON_SETTINGS,
    COMMON_STEPS,
    NORMALIZE,
    RELATIVE,
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
from rlcore.files.damaged_files import damaged_on

TYPES = {"pi0": False, "pi05": True}
SLOTS = ("base_0_rgb", "left_wrist_0_rgb", "right_wrist_0_rgb")
"""Camera names of base models. A base model can be fine-tuned with any number of cameras."""
VARIANTS = ("paligemma_variant", "action_expert_variant")

_STEPS: Supported = {
    **COMMON_STEPS,
    RELATIVE: dict.fromkeys(("enabled", "exclude_joints", "action_names")),
    "pi0_new_line_processor": {},
    "pi05_prepare_state_tokenizer_processor_step": {"max_state_dim": None, "task_key": "task"},
    TOKENIZE: {
        "max_length": None,
        "task_key": "task",
        "padding_side": "right",
        "padding": "max_length",
        "truncation": "True",
        "tokenizer_name": r"(.*/)?paligemma-3b-[\w-]+",
    },
    ABSOLUTE: {"enabled": None},
}
_SETTINGS = re.compile(
    f"{COMMON_SETTINGS}|image_resolution|resize_imgs_with_padding|use_relative_actions|"
    "relative_exclude_joints|action_feature_names|adapt_to_pi_aloha|paligemma_variant|"
    "action_expert_variant|num_(inference_)?steps|dtype|proj_width|attention_implementation|"
    "time_sampling_.*"
)
# Settings that change what the network computes, and the only value that this network supports.
_FIXED = {
    "n_obs_steps": 1,
    "min_period": 4e-3,
    "max_period": 4.0,
    "use_visual_memory": False,
    "use_proprioceptive_memory": False,
    "use_delta_joint_actions_aloha": False,
}


@dataclass(frozen=True)
class LeRobotPolicy:
    """The settings of a LeRobot policy, as the files of its folder state them.

    Attributes:
        trained: sizes and settings, see :class:`rlcore_model_openpi.published.Published`.
        delta_mask: which entries of the action are relative to the state; empty: none.
        adapted: whether ALOHA's joints are converted to those of π0's robot.
        state, actions: how states and actions are normalised.
    """

    trained: Mapping[str, Any]
    delta_mask: tuple[bool, ...]
    adapted: bool
    state: Scaled
    actions: Scaled


def read_policy(path: Path, content: Mapping[str, Any]) -> LeRobotPolicy:
    """Read the settings of a LeRobot policy from its folder.

    Args:
        path: of `config.json`.
        content: of `config.json`.

    Raises:
        CheckpointError: the policy is not a π0 or π0.5, a setting is not supported, or a file is
            damaged.
    """
    pi05 = TYPES.get(content["type"])
    if pi05 is None:
        raise CheckpointError(
            f"{path} is of LeRobot's policy {content['type']!r}",
            hint=f"this model reads its policies {' and '.join(TYPES)}",
        )
    check_settings(path, content, _SETTINGS, _FIXED)
    width = content.get("max_action_dim", 32)
    if not pi05:  # π0.5 does not project the state
        require(path, "max_state_dim", content.get("max_state_dim", 32), width)
    size = content.get("image_resolution", content.get("resize_imgs_with_padding", [224, 224]))
    side = size[0] if isinstance(size, list) and size else size
    require(path, "image_resolution", size, [side, side])
    before = read_steps(path.parent / BEFORE, _STEPS)
    after = read_steps(path.parent / AFTER, _STEPS)
    relative = bool(before.get(RELATIVE, {}).get("enabled"))
    absolute = bool(after.get(ABSOLUTE, {}).get("enabled"))
    require(path.parent / AFTER, f"enabled of {ABSOLUTE}", absolute, relative)
    length = content.get("tokenizer_max_length", 200 if pi05 else 48)
    cameras = read_cameras(path, content, SLOTS)
    return LeRobotPolicy(
        trained={
            "pi05": pi05,
            "action_horizon": content.get("chunk_size", 50),
            "action_dim": width,
            "max_token_len": before.get(TOKENIZE, {}).get("max_length", length),
            "image_size": side,
            "discrete_state_input": pi05,
            **({} if cameras is None else {"num_images_in_input": len(cameras)}),
            **{name: content[name] for name in VARIANTS if name in content},
        },
        delta_mask=_delta_mask(path, content, before),
        adapted=content.get("adapt_to_pi_aloha") is True,
        state=read_scaled(path, content, before.get(NORMALIZE), "STATE"),
        actions=read_scaled(path, content, after.get(UNNORMALIZE), "ACTION"),
    )


def _delta_mask(
    path: Path, content: Mapping[str, Any], steps: Mapping[str, Mapping[str, Any]]
) -> tuple[bool, ...]:
    """Return which entries of the action are relative to the state; empty: none.

    LeRobot excludes an entry if its name contains one of the words in `exclude_joints`.
    """
    policy_settings = {
        "enabled": content.get("use_relative_actions", False),
        "exclude_joints": content.get("relative_exclude_joints", []),
        "action_names": content.get("action_feature_names"),
    }
    step = steps.get(RELATIVE, policy_settings)
    if not step.get("enabled"):
        return ()
    with damaged_on(path):
        entries = int(content["output_features"]["action"]["shape"][0])
    names = [str(name).lower() for name in step.get("action_names") or []][:entries]
    absolute = [str(joint).lower() for joint in step.get("exclude_joints") or [] if joint]
    relative = [not any(joint in name for joint in absolute) for name in names]
    return tuple(relative) + (True,) * (entries - len(relative))
