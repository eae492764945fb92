"""Write the processor files and statistics of a LeRobot folder, as its `save_pretrained` does.

LeRobot's formulas don't add openpi's 1e-6, so it is added to the statistics instead.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rlcore.files.atomic import write_text
from rlcore_flow.lerobot import AFTER, BEFORE, EPSILON, NORMALIZE, TOKENIZE, UNNORMALIZE
from rlcore_flow.normalize import OPENPI, Formula, Normalizer, Stats

STATE = "observation.state"
ACTION = "action"
RENAME_AND_BATCH: Mapping[str, Mapping[str, Any]] = {
    "rename_observations_processor": {"rename_map": {}},
    "to_batch_processor": {},
}
"""The first steps of every policy."""
DEVICE: Mapping[str, Mapping[str, Any]] = {
    "device_processor": {"device": "cpu", "float_dtype": None}
}


def policy_config(
    kind: str,
    cameras: Mapping[str, tuple[int, int]],
    *,
    env: tuple[int, int],
    network: tuple[int, int],
    horizon: int,
    executed: int,
    prompt: int,
    normalizer: Normalizer,
) -> dict[str, Any]:
    """Return the entries of a `config.json` that the policies have in common.

    Args:
        kind: LeRobot's name of the policy.
        cameras: height and width of the images by camera.
        env: entries of the env's state and action.
        network: entries of state and action after padding.
        horizon: actions predicted per decision.
        executed: actions of these that are executed.
        prompt: tokens of the prompt, including padding.
        normalizer: statistics.
    """
    return {
        "type": kind,
        "n_obs_steps": 1,
        **_features(cameras, *env),
        "chunk_size": horizon,
        "n_action_steps": executed,
        "max_state_dim": network[0],
        "max_action_dim": network[1],
        "tokenizer_max_length": prompt,
        "normalization_mapping": {
            "VISUAL": "IDENTITY",
            "STATE": _mode(normalizer.state_formula),
            "ACTION": _mode(normalizer.action_formula),
        },
    }


def normalizing_steps(config: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the steps that normalise before the network and after it, for a `config.json`."""
    scale = {"eps": EPSILON, "norm_map": config["normalization_mapping"]}
    outputs = config["output_features"]
    before = {**scale, "features": {**config["input_features"], **outputs}}
    return {NORMALIZE: before}, {UNNORMALIZE: {**scale, "features": outputs}}


def write_processors(
    folder: Path, before: Mapping[str, Any], after: Mapping[str, Any], normalizer: Normalizer
) -> None:
    """Write both processor files with the statistics that they name.

    Args:
        folder: where to.
        before, after: settings of the steps by name, in order.
        normalizer: statistics; those of the state must be known.
    """
    assert normalizer.state is not None
    stats = {
        STATE: lerobot_stats(normalizer.state, normalizer.state_formula),
        ACTION: lerobot_stats(normalizer.actions, normalizer.action_formula),
    }
    write_processor(folder / BEFORE, before, stats)
    write_processor(folder / AFTER, after, stats)


def _features(
    cameras: Mapping[str, tuple[int, int]], state_dim: int, action_dim: int
) -> dict[str, dict[str, Any]]:
    """Return `input_features` and `output_features` of a `config.json`.

    Args:
        cameras: height and width of the images by camera.
        state_dim, action_dim: entries of the env's state and action.
    """
    images = {
        f"observation.images.{name}": {"type": "VISUAL", "shape": [3, height, width]}
        for name, (height, width) in cameras.items()
    }
    return {
        "input_features": {**images, STATE: {"type": "STATE", "shape": [state_dim]}},
        "output_features": {ACTION: {"type": "ACTION", "shape": [action_dim]}},
    }


def tokenizer_step(name: str, max_length: int, padding: str) -> dict[str, dict[str, Any]]:
    """Return the step that tokenizes the instruction, by the name of the tokenizer on the hub."""
    return {
        TOKENIZE: {
            "max_length": max_length,
            "task_key": "task",
            "padding_side": "right",
            "padding": padding,
            "truncation": True,
            "tokenizer_name": name,
        }
    }


def lerobot_stats(stats: Stats, formula: Formula) -> dict[str, np.ndarray]:
    """Return float32 statistics with which LeRobot's formula gives the same results as ours."""
    if not formula.lerobot:
        upper = formula.fields[1]  # std, or the upper bound
        stats = replace(stats, **{upper: stats.pair(formula)[1] + OPENPI})
    return {
        name: values.astype(np.float32)
        for name, values in vars(stats).items()
        if values is not None
    }


def write_processor(
    path: Path, steps: Mapping[str, Any], stats: Mapping[str, Mapping[str, np.ndarray]]
) -> None:
    """Write a processor file, and the statistics of its normalisation step next to it.

    Args:
        path: the file.
        steps: settings of the steps by name, in order.
        stats: statistics of each feature.
    """
    from safetensors.numpy import save_file

    entries = []
    for number, (name, settings) in enumerate(steps.items()):
        entry = {"registry_name": name, "config": settings}
        if name.endswith("normalizer_processor"):
            entry["state_file"] = f"{path.stem}_step_{number}_{name}.safetensors"
            tensors = {
                f"{feature}.{field}": values
                for feature, fields in stats.items()
                for field, values in fields.items()
            }
            save_file(tensors, path.parent / entry["state_file"])
        entries.append(entry)
    write_json(path, {"name": path.stem, "steps": entries})


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file, indented, atomically."""
    write_text(path, json.dumps(content, indent=2) + "\n")


def _mode(formula: Formula) -> str:
    return "QUANTILES" if formula.quantile else "MEAN_STD"
