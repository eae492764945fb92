"""Write and check `config.json` and `preprocessor_config.json`. No tensor library.

They are written in the form that OpenVLA's classes for transformers read, and compared with the
network in the same folder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from math import isfinite
from pathlib import Path
from typing import Any

from rlcore.contracts.errors import CheckpointError
from rlcore.files.damaged_files import damaged_error, read_mapping
from rlcore_prismatic.sizes import SIZE_HINT, PrismaticSize
from rlcore_prismatic.statistics import CONFIG_FILE

PREPROCESSOR_FILE = "preprocessor_config.json"
RLCORE = "rlcore"
"""Key of our settings in `config.json`."""

_RESIZE = "resize-naive"
# settings of a processor that are read elsewhere, name code, or concern letterboxes
_UNCHECKED = {
    "auto_map",
    "processor_class",
    "means",
    "stds",
    "tvf_normalize_params",
    "tvf_letterbox_fill",
}
_VISION_SETTINGS = (
    "image_resize_strategy",
    "image_sizes",
    "timm_model_ids",
    "timm_override_act_layers",
    "use_fused_vision_backbone",
)
"""Settings of `config.json` that determine how images are read."""
_LLAMA = {
    "attention_bias": False,
    "hidden_act": "silu",
    "mlp_bias": False,
    "rms_norm_eps": 1e-6,
    "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
    "rope_scaling": None,
    "rope_theta": 10000.0,
}
"""Settings that all our Llamas share."""


def transformers_config(
    size: PrismaticSize, statistics: Mapping[str, Any], settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Return `config.json` as OpenVLA's classes for transformers read it, with our settings."""
    return {
        "architectures": ["OpenVLAForActionPrediction"],
        "model_type": "openvla",
        "image_resize_strategy": _RESIZE,
        "image_sizes": [size.image_size] * len(size.towers),
        "llm_max_length": 2048,
        "n_action_bins": size.action_bins,
        "norm_stats": statistics,
        "pad_to_multiple_of": size.padding_rows,
        "pad_token_id": size.pad,
        "text_config": {
            "model_type": "llama",
            "hidden_size": size.width,
            "intermediate_size": size.mlp,
            "num_attention_heads": size.heads,
            "num_hidden_layers": size.depth,
            "num_key_value_heads": size.kv_heads,
            "pad_token_id": size.pad,
            "vocab_size": size.rows,
        },
        "timm_model_ids": [tower.timm_id for tower in size.towers],
        "timm_override_act_layers": [None] * len(size.towers),
        "use_fused_vision_backbone": len(size.towers) == 2,
        RLCORE: {"model": settings, "size": asdict(size)},
    }


def preprocessor_config(size: PrismaticSize) -> dict[str, Any]:
    """Return `preprocessor_config.json` as OpenVLA's image processor reads it."""
    return {
        "image_processor_type": "PrismaticImageProcessor",
        "image_resize_strategy": _RESIZE,
        "input_sizes": [[3, size.image_size, size.image_size] for _ in size.towers],
        "interpolations": ["bicubic"] * len(size.towers),
        "means": [list(tower.mean) for tower in size.towers],
        "stds": [list(tower.std) for tower in size.towers],
        "use_fused_vision_backbone": len(size.towers) == 2,
    }


def with_pixels(path: Path, size: PrismaticSize) -> PrismaticSize:
    """Return the size with the pixel means and stds of a `preprocessor_config.json`, if it exists.

    The published file has them twice, once rounded; the original code reads the rounded ones.

    Raises:
        CheckpointError: the file is damaged.
    """
    if not path.exists():
        return size
    content = read_mapping(path)
    count = len(size.towers)
    means: Any
    stds: Any
    rounded = content.get("tvf_normalize_params")
    if rounded and isinstance(rounded, list) and all(isinstance(entry, dict) for entry in rounded):
        means = [entry.get("mean") for entry in rounded]
        stds = [entry.get("std") for entry in rounded]
    elif rounded:
        raise damaged_error(path, f"its tvf_normalize_params are {rounded!r}")
    else:
        means = content.get("means")
        stds = content.get("stds")
    if not means and not stds:
        return size
    if not (_is_rgb(means, count) and _is_rgb(stds, count)) or min(map(min, stds)) <= 0:
        raise damaged_error(
            path,
            f"it must have three means and three positive stds for each of {count} vision "
            f"tower(s), got {means!r} and {stds!r}",
        )
    towers = (
        replace(tower, mean=tuple(mean), std=tuple(std))
        for tower, mean, std in zip(size.towers, means, stds, strict=True)
    )
    return replace(size, towers=tuple(towers))


def check_images(path: Path, size: PrismaticSize) -> None:
    """Check that the images of a checkpoint are prepared as we prepare them.

    A setting of `preprocessor_config.json` must be empty, equal ours, or have no effect.

    Raises:
        CheckpointError: a setting differs; the message names it.
    """
    content = read_mapping(path) if path.exists() else {}
    side = [size.image_size] * 2
    count = len(size.towers)
    resized = {"antialias": True, "interpolation": 3, "max_size": None, "size": side}
    expected = preprocessor_config(size) | {
        "tvf_resize_params": [resized] * count,
        "tvf_crop_params": [{"output_size": side}] * count,
    }
    for name, value in content.items():
        if name not in _UNCHECKED and not _is_empty(value) and value != expected.get(name):
            raise CheckpointError(
                f"{name} in {path} must be {expected.get(name, 'empty')!r}, got {value!r}",
                hint=f"{SIZE_HINT}; a model whose images are prepared differently can't be used",
            )


def check_written_size(folder: Path, size: PrismaticSize) -> None:
    """Compare the size with `config.json`, if that records it.

    The record is our own, or the Llama's settings for transformers.

    Raises:
        CheckpointError: the file is damaged, or of another network.
    """
    path = folder / CONFIG_FILE
    if not path.exists():
        return
    content = read_mapping(path)
    record = content.get(RLCORE)
    text = content.get("text_config")
    ours = transformers_config(size, {}, {})
    expected: dict[str, Any] = {}
    written: dict[str, Any] = {}
    if isinstance(record, dict) and isinstance(record.get("size"), dict):
        expected = _without_pixels(json.loads(json.dumps(asdict(size))))
        written = _without_pixels(record["size"])
    elif isinstance(text, dict):
        expected = {name: value for name, value in ours["text_config"].items() if name in text}
        written = text
    # settings that our network has, and that transformers takes if the file omits them
    built = {
        **_LLAMA,
        **{name: ours[name] for name in ("n_action_bins", "pad_to_multiple_of", *_VISION_SETTINGS)},
    }
    settings = {**content, **(text if isinstance(text, dict) else {})}
    expected |= {name: value for name, value in built.items() if name in settings}
    written = {**written, **{name: settings[name] for name in built if name in settings}}
    different = [
        f"{name} {written.get(name)!r} (got {value!r})"
        for name, value in expected.items()
        if written.get(name) != value
    ]
    if different:
        raise CheckpointError(
            f"{folder} is of another network: {', '.join(different)}", hint=SIZE_HINT
        )


def _is_empty(value: object) -> bool:
    """Return whether a setting is empty, or a list of empty values, one per tower."""
    return not value or (isinstance(value, list) and not any(value))


def _is_rgb(rows: object, count: int) -> bool:
    """Return whether `rows` is `count` lists of three finite numbers."""
    if not isinstance(rows, list) or len(rows) != count:
        return False
    return all(
        isinstance(row, list)
        and len(row) == 3
        and all(type(value) in (int, float) and isfinite(value) for value in row)
        for row in rows
    )


def _without_pixels(size: dict[str, Any]) -> dict[str, Any]:
    towers = size.get("towers")
    if not isinstance(towers, list):
        return size
    without = [
        {name: value for name, value in tower.items() if name not in ("mean", "std")}
        for tower in towers
        if isinstance(tower, dict)
    ]
    return {**size, "towers": without}
