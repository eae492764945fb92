"""Read the settings that a checkpoint's `config.json` states, in each known format. No torch.

The file is rlcore's (it has the key "size"), LeRobot's (it has the key "type", see lerobot.py), or
written by the converters of openpi and RLinf, with action_horizon, action_dim, paligemma_variant
and so on. A file of any other form is ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlcore_flow.normalize import Formula

from rlcore.contracts.errors import CheckpointError
from rlcore.files.damaged_files import damaged_error, damaged_on, read_json
from rlcore_model_openpi.lerobot import VARIANTS, LeRobotPolicy, read_policy

CONFIG_FILE = "config.json"
_COUNTS = ("action_horizon", "action_dim", "max_token_len", "image_size")
_LARGEST = 2**14
_FLAGS = ("pi05", "discrete_state_input")
_LORA = "_lora"


@dataclass(frozen=True)
class Published:
    """The settings that a checkpoint's files state. Settings that they don't state are missing.

    Attributes:
        trained: settings that the weights were trained with, by the names of NetworkSize and of
            :func:`rlcore_model_openpi.resolved.trained_with`.
        heads: the same for each head, see :func:`rlcore_flow.head_shapes.heads_trained_with`.
        delta_mask: which entries of the action are relative to the state; None: config_name's mask.
        formulas: how "state" and "actions" are normalised; a missing one is openpi's formula for
            the generation.
        lerobot: the settings of a LeRobot policy; None for other formats.
    """

    trained: Mapping[str, Any] = field(default_factory=dict)
    heads: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    delta_mask: tuple[bool, ...] | None = None
    formulas: Mapping[str, Formula] = field(default_factory=dict)
    lerobot: LeRobotPolicy | None = None


def read_published(folder: Path) -> Published:
    """Read the settings that the files of `folder` state; none without a `config.json`.

    Raises:
        CheckpointError: `config.json` is damaged, or describes a policy that is not supported.
    """
    path = folder / CONFIG_FILE
    if not path.exists():
        return Published()
    content = read_json(path)
    if not isinstance(content, dict):
        return Published()
    if isinstance(content.get("size"), dict):
        published = _rlcore_settings(path, content)
    elif isinstance(content.get("type"), str):
        policy = read_policy(path, content)
        formulas = {"state": policy.state.formula, "actions": policy.actions.formula}
        published = Published(policy.trained, {}, policy.delta_mask, formulas, policy)
    else:
        published = Published(_converter_settings(path, content))
    _check_values(path, published.trained)
    return published


def conventions(delta_mask: tuple[bool, ...], formulas: Mapping[str, Formula]) -> dict[str, Any]:
    """Return the entry of rlcore's `config.json` that says how states and actions are scaled."""
    scaled = {name: vars(formula) for name, formula in formulas.items()}
    return {"delta_mask": list(delta_mask), "scaled": scaled}


def _rlcore_settings(path: Path, content: Mapping[str, Any]) -> Published:
    with damaged_on(path):
        stored = content.get("conventions", {})
        formulas = {name: Formula(**scaled) for name, scaled in stored.get("scaled", {}).items()}
        mask = stored.get("delta_mask")
        return Published(
            content["size"] | content.get("trained_with", {}),
            content.get("heads_trained_with", {}),
            None if mask is None else tuple(map(bool, mask)),
            formulas,
        )


def _converter_settings(path: Path, content: Mapping[str, Any]) -> dict[str, Any]:
    """Read the settings from a `config.json` of openpi's or RLinf's converters.

    Raises:
        CheckpointError: the policy reads point clouds.
    """
    if content.get("pcd"):
        raise CheckpointError(
            f"{path} is of a policy that reads point clouds (pcd), which this model does not",
            hint="choose a checkpoint that was trained without them",
        )
    names = ("action_horizon", "action_dim", "max_token_len", *_FLAGS, *VARIANTS)
    return {name: content[name] for name in names if content.get(name) is not None}


def _check_values(path: Path, trained: Mapping[str, Any]) -> None:
    """Check types and ranges of the settings.

    Raises:
        CheckpointError: a value is malformed, or the weights are of a LoRA variant, whose adapters
            the converter drops.
    """
    for name in _COUNTS:
        value = trained.get(name, 1)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _LARGEST:
            raise damaged_error(
                path, f"{name} must be a whole number in 1..{_LARGEST}, it is {value!r}"
            )
    for name in _FLAGS:
        if not isinstance(trained.get(name, False), bool):
            raise damaged_error(path, f"{name} must be true or false, it is {trained[name]!r}")
    for name in VARIANTS:
        value = trained.get(name, "")
        if isinstance(value, str) and value.endswith(_LORA):
            raise CheckpointError(
                f"{path} has {name} {value!r}: openpi's converter leaves LoRA's adapters out",
                hint="merge the adapters into the weights before the conversion, then write "
                f"{value.removesuffix(_LORA)!r} there",
            )
