"""Read the settings and statistics of LeRobot's checkpoint folders of π0 and π0.5. No torch.

config.json                   the policy: type, sizes, cameras, and settings of its training
policy_preprocessor.json      processor steps before the network
policy_postprocessor.json     processor steps after the network

A normalisation step names its own file of statistics: `observation.state.mean`, `action.q01` ...
Before version 0.4, LeRobot wrote no steps: the statistics are tensors in `model.safetensors`, such
as `normalize_inputs.buffer_observation_state.mean`. Settings of the training are ignored. Any other
setting that is not read here, and is not known to leave decisions unchanged, is refused unless it
is empty.
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
from rlcore.files.damaged_files import damaged_on, read_json
from rlcore_model_openpi.normalize import FIELDS, Formula, Stats, checked_stats

TYPES = {"pi0": False, "pi05": True}
BEFORE = "policy_preprocessor.json"
AFTER = "policy_postprocessor.json"
BUFFERS = ("normalize_inputs.", "normalize_targets.", "unnormalize_outputs.")
"""Prefixes of the tensors in `model.safetensors` that are statistics (before version 0.4)."""
SLOTS = ("base_0_rgb", "left_wrist_0_rgb", "right_wrist_0_rgb")
"""Camera names of base models. A base model can be fine-tuned with any number of cameras."""
MODES: dict[str, tuple[str, str]] = {
    "MEAN_STD": ("mean", "std"),
    "QUANTILES": ("q01", "q99"),
    "QUANTILE10": ("q10", "q90"),
    "MIN_MAX": ("min", "max"),
}
"""LeRobot's normalisation modes, and the two statistics that each uses."""

_WEIGHTS = "model.safetensors"
_EMPTY = "empty_camera"
_NORMALIZE = "normalizer_processor"
_UNNORMALIZE = "unnormalizer_processor"
_RELATIVE = "relative_actions_processor"
_TOKENIZE = "tokenizer_processor"
_STATE_FILE = "state_file"
_CHOOSE = "choose a checkpoint that was trained without it"
_RENAME = (
    "cameras are taken in the order of the env, not by their names: if this map puts them into the "
    "order of the input_features of config.json, replace it by {}"
)
_ABSOLUTE = "absolute_actions_processor"
_EPSILON = 1e-8  # LeRobot's default, and normalize.LEROBOT
_SCALE = dict.fromkeys(("eps", "features", "norm_map", "normalize_observation_keys"))
# Supported steps and their settings: a regular expression of the accepted values; empty values are
# always accepted. None: any value, as the setting is read, or has no effect on a decision.
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
# Accepted settings of `config.json`: those read here, and those of training, memory use or the hub,
# which have no effect on a decision.
_SETTINGS = re.compile(
    "type|chunk_size|max_(action|state)_dim|image_resolution|resize_imgs_with_padding|"
    "tokenizer_max_length|(input|output)_features|normalization_mapping|use_relative_actions|"
    "relative_exclude_joints|action_feature_names|adapt_to_pi_aloha|paligemma_variant|"
    "action_expert_variant|n_action_steps|num_(inference_)?steps|dtype|empty_cameras|proj_width|"
    "attention_implementation|use_(cache|amp)|device|gradient_checkpointing|push_to_hub|repo_id|"
    "private|tags|license|(compile|freeze|train|optimizer|scheduler|time_sampling|pretrained)_.*"
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
class Scaled:
    """The normalisation of one feature, and the place of its statistics.

    Attributes:
        mode: a key of :data:`MODES`, or "IDENTITY".
        path: the file with the statistics; None: there is none, or the feature is not normalised.
        prefix: prefix of the names of the statistics in that file.
    """

    mode: str
    path: Path | None
    prefix: str

    @property
    def formula(self) -> Formula:
        """The formula of the mode; "IDENTITY" is a z-score with mean 0 and std 1."""
        return Formula(quantile=self.mode not in ("MEAN_STD", "IDENTITY"), lerobot=True)


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
    for name, value in content.items():
        if name in _FIXED or (value and not _SETTINGS.fullmatch(name)):
            _require(path, name, value, _FIXED.get(name))
    width = content.get("max_action_dim", 32)
    if not pi05:  # π0.5 does not project the state
        _require(path, "max_state_dim", content.get("max_state_dim", 32), width)
    size = content.get("image_resolution", content.get("resize_imgs_with_padding", [224, 224]))
    side = size[0] if isinstance(size, list) and size else size
    _require(path, "image_resolution", size, [side, side])
    before = _steps(path.parent / BEFORE)
    after = _steps(path.parent / AFTER)
    relative = bool(before.get(_RELATIVE, {}).get("enabled"))
    absolute = bool(after.get(_ABSOLUTE, {}).get("enabled"))
    _require(path.parent / AFTER, f"enabled of {_ABSOLUTE}", absolute, relative)
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


def read_statistics(scaled: Scaled, name: str, absent: Stats) -> Stats:
    """Read the statistics of one feature.

    Args:
        scaled: where they are.
        name: "state" or "actions", for error messages.
        absent: statistics of the env's entries, for a checkpoint without any, or whose own were
            never filled in (all infinite), as in base models.

    Returns:
        The statistics; the identity if the checkpoint does not normalise the feature.

    Raises:
        CheckpointError: statistics of the mode are missing, damaged, or of another robot.
    """
    if scaled.mode == "IDENTITY":
        return Stats.identity(absent.size)
    if scaled.path is None:
        return absent
    arrays = _arrays(scaled.path, scaled.prefix)
    if not arrays or all(np.isinf(array).all() for array in arrays.values()):
        return absent
    fields: dict[str, np.ndarray] = {name: arrays[name] for name in FIELDS if name in arrays}
    for field, lerobot_field in zip(scaled.formula.fields, MODES[scaled.mode], strict=True):
        if lerobot_field not in arrays:
            raise CheckpointError(
                f"{scaled.path} lacks {scaled.prefix}{lerobot_field}, by which {scaled.mode} scales"
            )
        fields[field] = arrays[lerobot_field]
    return checked_stats(scaled.path, name, fields, scaled.formula, absent.size)


def _arrays(path: Path, prefix: str) -> dict[str, np.ndarray]:
    """Return the floating point tensors directly below `prefix`, by name, as float64 `[D]`."""
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
    """Read a processor file: the settings of each step by its name; empty without the file.

    The settings include "state_file", the name of the step's file of statistics or None.

    Raises:
        CheckpointError: the file is damaged, or a step or one of its settings is not supported.
    """
    if not path.is_file():
        return {}
    content = read_json(path)
    with damaged_on(path):
        entries = {
            entry.get("registry_name", entry.get("class")): entry for entry in content["steps"]
        }
        steps = {
            str(name): {**entry.get("config", {}), _STATE_FILE: entry.get(_STATE_FILE)}
            for name, entry in entries.items()
        }
        if len(steps) != len(content["steps"]):
            raise ValueError("it has a step twice")
    unknown = sorted(steps.keys() - _STEPS.keys())
    if unknown:
        raise CheckpointError(
            f"{path} has a step {unknown[0]!r}, which this model does not support", hint=_CHOOSE
        )
    for name, step in steps.items():
        for setting, value in step.items():
            default = None if setting == _STATE_FILE else ""
            allowed = _STEPS[name].get(setting, default)
            if value and allowed is not None and not re.fullmatch(allowed, str(value)):
                raise _unsupported(path, f"{setting} of {name}", value, allowed or "an empty one")
    return steps


def _scaled(
    path: Path, content: Mapping[str, Any], step: Mapping[str, Any] | None, kind: str
) -> Scaled:
    """Return how a feature is normalised: by a processor step, or by buffers among the weights.

    Args:
        path: of `config.json`.
        content: of `config.json`.
        step: settings of the normalisation step; None: the folder is from before version 0.4.
        kind: LeRobot's name of the feature type, "STATE" or "ACTION".

    Raises:
        CheckpointError: the mode is not supported, or the file of statistics is missing.
    """
    key = {"STATE": "observation.state", "ACTION": "action"}[kind]
    modes = content.get("normalization_mapping") if step is None else step.get("norm_map")
    modes = modes if isinstance(modes, dict) else {}
    _require(path, "normalization of VISUAL", modes.get("VISUAL", "IDENTITY"), "IDENTITY")
    mode = modes.get(kind, "IDENTITY")
    if mode not in (*MODES, "IDENTITY"):
        raise _unsupported(path, f"normalization of {kind}", mode, ", ".join(MODES))
    if step is None:
        return _buffered(path.parent, mode, kind)
    _require(path, "eps", step.get("eps", _EPSILON), _EPSILON)
    normalized_keys = step.get("normalize_observation_keys")
    if kind == "STATE" and normalized_keys is not None and key not in normalized_keys:
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
    """Return how a feature is normalised in a folder from before version 0.4.

    Raises:
        CheckpointError: the weights hold no statistics of the feature.
    """
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
            f"{folder} has no {file}, in which LeRobot stores the statistics",
            hint=f"copy or download {file} and the files that it names",
        )
    return Scaled(mode, weights, prefix)


def _cameras(path: Path, content: Mapping[str, Any]) -> int | None:
    """Return the number of cameras that the policy was trained with; None: a base model, for any.

    "Empty cameras", which LeRobot fills with blank images, don't count.
    """
    features = content.get("input_features") or {}
    with damaged_on(path):
        names = [name for name, feature in features.items() if feature["type"] == "VISUAL"]
    cameras = [name for name in names if _EMPTY not in name]
    is_base_model = all(name.endswith(SLOTS) for name in cameras)
    return None if is_base_model else len(cameras)


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
    step = steps.get(_RELATIVE, policy_settings)
    if not step.get("enabled"):
        return ()
    with damaged_on(path):
        entries = int(content["output_features"]["action"]["shape"][0])
    names = [str(name).lower() for name in step.get("action_names") or []][:entries]
    absolute = [str(joint).lower() for joint in step.get("exclude_joints") or [] if joint]
    relative = [not any(joint in name for joint in absolute) for name in names]
    return tuple(relative) + (True,) * (entries - len(relative))


def _require(path: Path, name: str, value: Any, expected: Any) -> None:
    if value != expected:
        raise _unsupported(path, name, value, expected)


def _unsupported(path: Path, name: str, value: Any, choices: Any) -> CheckpointError:
    return CheckpointError(
        f"{path}: this model does not support {name} {value!r}, only {choices}",
        hint=_RENAME if name.startswith("rename_map") else _CHOOSE,
    )
