"""Read what LeRobot's checkpoint folders of all flow policies have in common. No torch.

config.json                   the policy: type, sizes, cameras, and settings of its training
policy_preprocessor.json      processor steps before the network
policy_postprocessor.json     processor steps after the network

A normalisation step names its own file of statistics: `observation.state.mean`, `action.q01` ...
Before version 0.4, LeRobot wrote no steps: the statistics are tensors in `model.safetensors`, such
as `normalize_inputs.buffer_observation_state.mean`. Settings of the training are ignored. Any other
setting that a family does not read, and does not know to leave decisions unchanged, is refused
unless it is empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rlcore_weights.headers import read_headers

from rlcore.contracts.errors import CheckpointError
from rlcore.files.damaged_files import damaged_on, read_json
from rlcore_flow.normalize import FIELDS, Formula, Stats, checked_stats

BEFORE = "policy_preprocessor.json"
AFTER = "policy_postprocessor.json"
BUFFERS = ("normalize_inputs.", "normalize_targets.", "unnormalize_outputs.")
"""Prefixes of the tensors in `model.safetensors` that are statistics (before version 0.4)."""
MODES: dict[str, tuple[str, str]] = {
    "MEAN_STD": ("mean", "std"),
    "QUANTILES": ("q01", "q99"),
    "QUANTILE10": ("q10", "q90"),
    "MIN_MAX": ("min", "max"),
}
"""LeRobot's normalisation modes, and the two statistics that each uses."""
NORMALIZE = "normalizer_processor"
UNNORMALIZE = "unnormalizer_processor"
TOKENIZE = "tokenizer_processor"
RELATIVE = "relative_actions_processor"
ABSOLUTE = "absolute_actions_processor"
EPSILON = 1e-8
"""LeRobot's default, which is normalize.LEROBOT."""

_WEIGHTS = "model.safetensors"
_EMPTY = "empty_camera"
_STATE_FILE = "state_file"
_CHOOSE = "choose a checkpoint that was trained without it"
_RENAME = (
    "cameras are taken in the order of the env, not by their names: if this map puts them into the "
    "order of the input_features of config.json, replace it by {}"
)
_SCALE = dict.fromkeys(("eps", "features", "norm_map", "normalize_observation_keys"))

Supported = Mapping[str, Mapping[str, str | None]]
"""Supported processor steps and their settings: a regular expression of the accepted values; empty
values are always accepted. None: any value, as the setting is read, or has no effect on a decision.
"""
COMMON_STEPS: Supported = {
    "rename_observations_processor": {},
    "to_batch_processor": {},
    NORMALIZE: _SCALE,
    UNNORMALIZE: _SCALE,
    "device_processor": {"device": None, "float_dtype": "float32"},
}
"""The steps of all families."""
COMMON_SETTINGS = (
    "type|chunk_size|max_(action|state)_dim|tokenizer_max_length|(input|output)_features|"
    "normalization_mapping|n_action_steps|empty_cameras|use_(cache|amp)|device|"
    "gradient_checkpointing|push_to_hub|repo_id|private|tags|license|"
    "(compile|freeze|train|optimizer|scheduler|pretrained)_.*"
)
"""Regular expression of the settings of `config.json` that all families accept.

They are read, or are those of training, memory use or the hub, without effect on a decision."""


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


def check_settings(
    path: Path, content: Mapping[str, Any], accepted: re.Pattern[str], fixed: Mapping[str, Any]
) -> None:
    """Check that a family supports every setting of a `config.json`.

    Args:
        path: of `config.json`.
        content: of `config.json`.
        accepted: names of settings that may have any value.
        fixed: settings that change what the network computes, and the only value of each that the
            network supports.

    Raises:
        CheckpointError: a setting is not supported, or two contradict each other.
    """
    for name, value in content.items():
        if name in fixed or (value and not accepted.fullmatch(name)):
            require(path, name, value, fixed.get(name))
    predicted = content.get("chunk_size")
    executed = content.get("n_action_steps")
    if isinstance(predicted, int) and isinstance(executed, int) and executed > predicted > 0:
        raise CheckpointError(
            f"{path} has n_action_steps {executed}, more than its chunk_size {predicted}",
            hint="LeRobot does not load such a policy: copy or download the file again",
        )


def read_steps(path: Path, supported: Supported) -> dict[str, dict[str, Any]]:
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
    unknown = sorted(steps.keys() - supported.keys())
    if unknown:
        raise CheckpointError(
            f"{path} has a step {unknown[0]!r}, which this model does not support", hint=_CHOOSE
        )
    for name, step in steps.items():
        for setting, value in step.items():
            default = None if setting == _STATE_FILE else ""
            allowed = supported[name].get(setting, default)
            if value and allowed is not None and not re.fullmatch(allowed, str(value)):
                raise _unsupported(path, f"{setting} of {name}", value, allowed or "an empty one")
    return steps


def read_scaled(
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
    require(path, "normalization of VISUAL", modes.get("VISUAL", "IDENTITY"), "IDENTITY")
    mode = modes.get(kind, "IDENTITY")
    if mode not in (*MODES, "IDENTITY"):
        raise _unsupported(path, f"normalization of {kind}", mode, ", ".join(MODES))
    if step is None:
        return _buffered(path.parent, mode, kind)
    stated = content.get("normalization_mapping")
    if isinstance(stated, dict) and stated.get(kind, mode) != mode:
        raise CheckpointError(
            f"{path} has the normalization {stated[kind]} of {kind}, and its processor file {mode}",
            hint=f"LeRobot takes that of the processor file: write it into {path.name} too",
        )
    require(path, "eps", step.get("eps", EPSILON), EPSILON)
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


def read_cameras(
    path: Path, content: Mapping[str, Any], slots: Iterable[str]
) -> tuple[str, ...] | None:
    """Return the cameras that the policy was trained with; None: a base model, for any.

    "Empty cameras", which LeRobot fills with blank images, don't count.

    Args:
        path: of `config.json`.
        content: of `config.json`.
        slots: camera names of base models, which can be fine-tuned with any number of cameras;
            empty for a folder that is not one of a base model.
    """
    features = content.get("input_features") or {}
    with damaged_on(path):
        names = [name for name, feature in features.items() if feature["type"] == "VISUAL"]
    cameras = tuple(name for name in names if _EMPTY not in name)
    is_base_model = all(name.endswith(tuple(slots)) for name in cameras)
    return None if is_base_model else cameras


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


def require(path: Path, name: str, value: Any, expected: Any) -> None:
    """Check that a setting has the only supported value.

    Raises:
        CheckpointError: it has another.
    """
    if value != expected:
        raise _unsupported(path, name, value, expected)


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


def _unsupported(path: Path, name: str, value: Any, choices: Any) -> CheckpointError:
    return CheckpointError(
        f"{path}: this model does not support {name} {value!r}, only {choices}",
        hint=_RENAME if name.startswith("rename_map") else _CHOOSE,
    )
