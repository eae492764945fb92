"""LeRobot's folders of π0 and π0.5: what their files say, in our words. No torch.

config.json                   the policy: its type, sizes, cameras, and settings of a training
policy_preprocessor.json      the steps before the network
policy_postprocessor.json     the steps after it

A step that scales names its own file of statistics: `observation.state.mean`, `action.q01` ...
Before version 0.4 there were no steps: the statistics are in `model.safetensors`, called
`normalize_inputs.buffer_observation_state.mean` and the like. Settings of a training are not read.
One that we neither read nor know to be without effect is refused, unless it is empty.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rlcore_weights.headers import read_headers

from rlcore.contracts.errors import CheckpointError
from rlcore.files.damaged_files import blaming, read_json
from rlcore_model_openpi.normalize import FIELDS, Formula, Stats, checked_stats

TYPES = {"pi0": False, "pi05": True}
BEFORE, AFTER = "policy_preprocessor.json", "policy_postprocessor.json"
BUFFERS = ("normalize_inputs.", "normalize_targets.", "unnormalize_outputs.")
"""How names of tensors begin that are statistics before version 0.4."""
SLOTS = ("base_0_rgb", "left_wrist_0_rgb", "right_wrist_0_rgb")
"""Cameras of base models, which are trained further with any of them."""
MODES: dict[str, tuple[str, str]] = {
    "MEAN_STD": ("mean", "std"),
    "QUANTILES": ("q01", "q99"),
    "QUANTILE10": ("q10", "q90"),
    "MIN_MAX": ("min", "max"),
}
"""LeRobot's ways of scaling, and the statistics of each."""

_WEIGHTS = "model.safetensors"
_EMPTY = "empty_camera"
_NORMALIZE, _UNNORMALIZE = "normalizer_processor", "unnormalizer_processor"
_RELATIVE, _TOKENIZE = "relative_actions_processor", "tokenizer_processor"
_STATE_FILE = "state_file"
_CHOOSE = "choose a checkpoint that was trained without it"
_RENAME = (
    "cameras are taken in the order of the env, whatever they are called: if that is the order in "
    "which this map leads to the input_features of config.json, write {} in its place"
)
_ABSOLUTE = "absolute_actions_processor"
_EPSILON = 1e-8  # of their normaliser, as in ours
_SCALE = dict.fromkeys(("eps", "features", "norm_map", "normalize_observation_keys"))
# Steps with their settings, and a pattern of the values that these may have besides empty ones;
# None: the setting is read, or has no effect on a decision.
_STEPS: dict[str, dict[str, str | None]] = {
    "rename_observations_processor": {},
    "to_batch_processor": {},
    _RELATIVE: dict.fromkeys(("enabled", "exclude_joints", "action_names")),
    _NORMALIZE: _SCALE,
    "pi0_new_line_processor": {},
    "pi05_prepare_state_tokenizer_processor_step": {"max_state_dim": None, "task_key": "task"},
    _TOKENIZE: {
        "max_length": None,
        "task_key": "task",
        "padding_side": "right",
        "padding": "max_length",
        "truncation": "True",
        "tokenizer_name": r"(.*/)?paligemma-3b-[\w-]+",
    },
    "device_processor": {"device": None, "float_dtype": "float32"},
    _UNNORMALIZE: _SCALE,
    _ABSOLUTE: {"enabled": None},
}
# Settings of `config.json` that are read, or concern a training, memory or a hub.
_SETTINGS = re.compile(
    "type|chunk_size|max_(action|state)_dim|image_resolution|resize_imgs_with_padding|"
    "tokenizer_max_length|(input|output)_features|normalization_mapping|use_relative_actions|"
    "relative_exclude_joints|action_feature_names|adapt_to_pi_aloha|paligemma_variant|"
    "action_expert_variant|n_action_steps|num_(inference_)?steps|dtype|empty_cameras|proj_width|"
    "attention_implementation|use_(cache|amp)|device|gradient_checkpointing|push_to_hub|repo_id|"
    "private|tags|license|(compile|freeze|train|optimizer|scheduler|time_sampling|pretrained)_.*"
)
# Settings that change what the network computes, and the value that ours computes with.
_FIXED = {
    "n_obs_steps": 1,
    "min_period": 4e-3,
    "max_period": 4.0,
    "use_visual_memory": False,
    "use_proprioceptive_memory": False,
    "use_delta_joint_actions_aloha": False,
}


@dataclass(frozen=True)
class Scaled:
    """How one feature is scaled, and by what.

    Attributes:
        mode: a name of :data:`MODES`, or "IDENTITY".
        path: the file with the statistics; None: there are none, and nothing is scaled.
        prefix: how their names begin in it.
    """

    mode: str
    path: Path | None
    prefix: str

    @property
    def formula(self) -> Formula:
        """The formula in our words; "IDENTITY" is a mean of 0 and a std of 1."""
        return Formula(quantile=self.mode not in ("MEAN_STD", "IDENTITY"), lerobot=True)


@dataclass(frozen=True)
class LeRobotPolicy:
    """What a folder says of its policy.

    Attributes:
        trained: sizes and settings by our names.
        delta_mask: entries of the action that are relative to the state.
        adapted: whether joints of ALOHA are converted to those of π0's robot.
        state, actions: how they are scaled.
    """

    trained: Mapping[str, Any]
    delta_mask: tuple[bool, ...]
    adapted: bool
    state: Scaled
    actions: Scaled


def read_policy(path: Path, content: Mapping[str, Any]) -> LeRobotPolicy:
    """What the folder of this `config.json` says.

    Raises:
        CheckpointError: another kind of policy, a setting our network lacks, or a damaged file.
    """
    pi05 = TYPES.get(content["type"])
    if pi05 is None:
        raise CheckpointError(
            f"{path} is of LeRobot's policy {content['type']!r}",
            hint=f"this model reads its policies {' and '.join(TYPES)}",
        )
    for name, value in content.items():
        if name in _FIXED or (value and not _SETTINGS.fullmatch(name)):
            _require(path, name, value, _FIXED.get(name))
    width = content.get("max_action_dim", 32)
    if not pi05:  # π0.5 does not project the state
        _require(path, "max_state_dim", content.get("max_state_dim", 32), width)
    size = content.get("image_resolution", content.get("resize_imgs_with_padding", [224, 224]))
    side = size[0] if isinstance(size, list) and size else size
    _require(path, "image_resolution", size, [side, side])
    before, after = (_steps(path.parent / name) for name in (BEFORE, AFTER))
    both = [
        bool(step.get("enabled")) for step in (before.get(_RELATIVE, {}), after.get(_ABSOLUTE, {}))
    ]
    _require(path.parent / AFTER, f"enabled of {_ABSOLUTE}", both[1], both[0])
    length = content.get("tokenizer_max_length", 200 if pi05 else 48)
    cameras = _cameras(path, content)
    return LeRobotPolicy(
        trained={
            "pi05": pi05,
            "action_horizon": content.get("chunk_size", 50),
            "action_dim": width,
            "max_token_len": before.get(_TOKENIZE, {}).get("max_length", length),
            "image_size": side,
            "discrete_state_input": pi05,
            **({} if cameras is None else {"num_images_in_input": cameras}),
            **{name: content[name] for name in VARIANTS if name in content},
        },
        delta_mask=_delta_mask(path, content, before),
        adapted=content.get("adapt_to_pi_aloha") is True,
        state=_scaled(path, content, before.get(_NORMALIZE), "STATE"),
        actions=_scaled(path, content, after.get(_UNNORMALIZE), "ACTION"),
    )


VARIANTS = ("paligemma_variant", "action_expert_variant")


def read_statistics(scaled: Scaled, name: str, least: int) -> Stats:
    """Statistics of one feature; those that change nothing where there are none.

    Args:
        name: "state" or "actions", for messages.
        least: entries of the env.

    Raises:
        CheckpointError: missing, damaged, or of another robot.
    """
    if scaled.path is None or scaled.mode == "IDENTITY":
        return Stats.identity(least)
    arrays = _arrays(scaled.path, scaled.prefix)
    if not arrays or all(np.isinf(array).all() for array in arrays.values()):
        return Stats.identity(least)  # a base model: the file has none, or was never filled
    fields: dict[str, np.ndarray] = {name: arrays[name] for name in FIELDS if name in arrays}
    for field, theirs in zip(scaled.formula.fields, MODES[scaled.mode], strict=True):
        if theirs not in arrays:
            raise CheckpointError(
                f"{scaled.path} lacks {scaled.prefix}{theirs}, which {scaled.mode} scales by"
            )
        fields[field] = arrays[theirs]
    return checked_stats(scaled.path, name, fields, scaled.formula, least)


def _arrays(path: Path, prefix: str) -> dict[str, np.ndarray]:
    """Statistics by name, float64 `[D]`."""
    from safetensors import safe_open

    headers = read_headers(path)
    with safe_open(path, framework="numpy") as file:
        return {
            name.removeprefix(prefix): np.atleast_1d(file.get_tensor(name)).astype(np.float64)
            for name, header in headers.items()
            if name.startswith(prefix) and "." not in name.removeprefix(prefix)
            if header.dtype in ("F32", "F64", "F16")
        }


def _steps(path: Path) -> dict[str, dict[str, Any]]:
    """Settings of the steps of a processor by name, with the name of their file of statistics.
    Empty if the file is not there."""
    if not path.is_file():
        return {}
    content = read_json(path)
    with blaming(path):
        entries = {
            entry.get("registry_name", entry.get("class")): entry for entry in content["steps"]
        }
        steps = {
            str(name): {**entry.get("config", {}), _STATE_FILE: entry.get(_STATE_FILE)}
            for name, entry in entries.items()
        }
        if len(steps) != len(content["steps"]):
            raise ValueError("a step is there twice")
    unknown = sorted(steps.keys() - _STEPS.keys())
    if unknown:
        raise CheckpointError(
            f"{path} has a step {unknown[0]!r}, which this model can't do", hint=_CHOOSE
        )
    for name, step in steps.items():
        for setting, value in step.items():
            allowed = "" if setting != _STATE_FILE else None
            allowed = _STEPS[name].get(setting, allowed)
            if value and allowed is not None and not re.fullmatch(allowed, str(value)):
                raise _unsupported(path, f"{setting} of {name}", value, allowed or "an empty one")
    return steps


def _scaled(
    path: Path, content: Mapping[str, Any], step: Mapping[str, Any] | None, kind: str
) -> Scaled:
    """How a feature is scaled: by a step of its processor, or by buffers among the weights.

    Args:
        step: of the processor; None: there is none.
        kind: LeRobot's word for the feature: "STATE" or "ACTION".
    """
    key = {"STATE": "observation.state", "ACTION": "action"}[kind]
    modes = (content if step is None else step).get(
        "normalization_mapping" if step is None else "norm_map", {}
    )
    modes = modes if isinstance(modes, dict) else {}
    _require(path, "normalization of VISUAL", modes.get("VISUAL", "IDENTITY"), "IDENTITY")
    mode = modes.get(kind, "IDENTITY")
    if mode not in (*MODES, "IDENTITY"):
        raise _unsupported(path, f"normalization of {kind}", mode, ", ".join(MODES))
    if step is None:
        return _buffered(path.parent, mode, kind)
    _require(path, "eps", step.get("eps", _EPSILON), _EPSILON)
    only = step.get("normalize_observation_keys")
    if kind == "STATE" and only is not None and key not in only:
        mode = "IDENTITY"
    if step[_STATE_FILE] is None:
        return Scaled(mode, None, f"{key}.")
    file = path.parent / Path(str(step[_STATE_FILE])).name
    if not file.is_file():
        raise CheckpointError(
            f"{path.parent} lacks {file.name}, the statistics that its {BEFORE} or {AFTER} names",
            hint="copy or download it again",
        )
    return Scaled(mode, file, f"{key}.")


def _buffered(folder: Path, mode: str, kind: str) -> Scaled:
    """How a feature is scaled in a folder of before version 0.4."""
    prefix = {
        "STATE": "normalize_inputs.buffer_observation_state.",
        "ACTION": "unnormalize_outputs.buffer_action.",
    }[kind]
    if mode == "IDENTITY":
        return Scaled(mode, None, prefix)
    weights = folder / _WEIGHTS
    if not weights.is_file() or not any(name.startswith(prefix) for name in read_headers(weights)):
        file = {"STATE": BEFORE, "ACTION": AFTER}[kind]
        raise CheckpointError(
            f"{folder} has no {file}, in which LeRobot keeps the statistics",
            hint=f"copy or download {file} and the files that it names",
        )
    return Scaled(mode, weights, prefix)


def _cameras(path: Path, content: Mapping[str, Any]) -> int | None:
    """Cameras that the policy was trained with; None: any."""
    features = content.get("input_features") or {}
    with blaming(path):
        names = [name for name, one in features.items() if one["type"] == "VISUAL"]
    cameras = [name for name in names if _EMPTY not in name]
    base = all(name.endswith(SLOTS) for name in cameras)
    return None if base else len(cameras)


def _delta_mask(
    path: Path, content: Mapping[str, Any], steps: Mapping[str, Mapping[str, Any]]
) -> tuple[bool, ...]:
    """Entries of the action that are relative to the state; empty: none."""
    named = {
        "enabled": content.get("use_relative_actions", False),
        "exclude_joints": content.get("relative_exclude_joints", []),
        "action_names": content.get("action_feature_names"),
    }
    step = steps.get(_RELATIVE, named)
    if not step.get("enabled"):
        return ()
    with blaming(path):
        entries = int(content["output_features"]["action"]["shape"][0])
    names = [str(name).lower() for name in step.get("action_names") or []][:entries]
    absolute = [str(joint).lower() for joint in step.get("exclude_joints") or [] if joint]
    relative = [not any(joint in name for joint in absolute) for name in names]
    return tuple(relative) + (True,) * (entries - len(relative))


def _require(path: Path, name: str, value: Any, only: Any) -> None:
    if value != only:
        raise _unsupported(path, name, value, only)


def _unsupported(path: Path, name: str, value: Any, choices: Any) -> CheckpointError:
    return CheckpointError(
        f"{path}: this model can't do {name} {value!r}, only {choices}",
        hint=_RENAME if name.startswith("rename_map") else _CHOOSE,
    )
