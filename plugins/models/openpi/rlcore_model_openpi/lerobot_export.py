"""Export a saved policy as a LeRobot folder: `rlcore export RUN DEST --layout lerobot`.

The weights are copied unchanged: LeRobot's loader adds `model.` to their names itself. The other
files are written as by LeRobot's `save_pretrained`; see lerobot.py. LeRobot's formulas don't add
openpi's 1e-6, so it is added to the statistics instead.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rlcore.contracts.errors import CheckpointError, ConfigError
from rlcore.files.atomic import write_text
from rlcore.files.damaged_files import damaged_on, read_mapping
from rlcore.runs.env_facts import EnvFacts, read_env_facts, total_size
from rlcore_model_openpi.data_configs import data_config
from rlcore_model_openpi.files import variants
from rlcore_model_openpi.lerobot import AFTER, BEFORE
from rlcore_model_openpi.normalize import OPENPI, Formula, Stats, find_stats, read_stats
from rlcore_model_openpi.published import CONFIG_FILE, read_published
from rlcore_model_openpi.sizes import NetworkSize
from rlcore_model_openpi.tokenizer_files import find_tokenizer
from rlcore_model_openpi.weight_files import NETWORK_FILE

_CANT = "export it without --layout: the folder loads in openpi"
_TOKENIZER = "google/paligemma-3b-pt-224"


def write_lerobot(folder: Path, target: Path) -> None:
    """Write the policy that rlcore saved in `folder` to the empty folder `target`.

    Raises:
        ConfigError: LeRobot does not support the policy's network size, robot or prompt.
        CheckpointError: a file of `folder` is missing or damaged.
    """
    path = folder / CONFIG_FILE
    content = read_mapping(path)
    with damaged_on(path):
        size = NetworkSize(**content["size"])
        trained = content["trained_with"]
        model = content["model"]
    _check(size, trained)
    facts = read_env_facts(folder)
    if facts is None:
        raise CheckpointError(f"{folder} does not record which env its policy is for")
    cameras = list(facts.cameras)[: trained["num_images_in_input"]]
    config = _config(size, model, facts, cameras)
    published = read_published(folder)
    formulas = published.formulas
    stats_path = find_stats(folder, data_config(trained["config_name"]).asset_id, strict=False)
    normalizer = read_stats(
        stats_path,
        formulas["state"],
        formulas["actions"],
        state_dim=total_size(facts.states),
        action_dim=total_size(facts.actions),
    )
    assert normalizer.state is not None  # read_stats refuses a file without
    config["normalization_mapping"] = {
        "VISUAL": "IDENTITY",
        "STATE": _mode(formulas["state"]),
        "ACTION": _mode(formulas["actions"]),
    }
    config |= _relative(published.delta_mask or (), total_size(facts.actions))
    stats = {
        "observation.state": _lerobot_stats(normalizer.state, formulas["state"]),
        "action": _lerobot_stats(normalizer.actions, formulas["actions"]),
    }
    shutil.copyfile(folder / NETWORK_FILE, target / NETWORK_FILE)
    tokenizer = find_tokenizer(folder)
    shutil.copyfile(tokenizer, target / tokenizer.name)
    _write_json(target / CONFIG_FILE, config)
    before, after = _steps(config)
    _write_processor(target / BEFORE, before, stats)
    _write_processor(target / AFTER, after, stats)


def _check(size: NetworkSize, trained: Mapping[str, Any]) -> None:
    """Check that LeRobot supports the policy.

    Raises:
        ConfigError: it doesn't.
    """
    if not variants(size):
        raise ConfigError(
            "LeRobot builds π0 and π0.5 at their published size only, and this policy has another",
            hint=_CANT,
        )
    if size.pi05 and not trained["discrete_state_input"]:
        raise ConfigError(
            "LeRobot's π0.5 always reads the state in its prompt, and this policy never does",
            hint=_CANT,
        )
    if data_config(trained["config_name"]).adapts:
        raise ConfigError(
            f"LeRobot does not convert joints to those of π0's robot, as "
            f"{trained['config_name']!r} does",
            hint=_CANT,
        )


def _config(
    size: NetworkSize, model: Mapping[str, Any], facts: EnvFacts, cameras: Sequence[str]
) -> dict[str, Any]:
    """Return LeRobot's `config.json` without the normalisation; LeRobot has defaults for the rest.

    Args:
        size: of the network.
        model: settings of `actor.model` that the policy was saved with.
        facts: facts of the env.
        cameras: names of the cameras that the policy reads.
    """
    side = size.image_size
    images = {
        f"observation.images.{name}": {"type": "VISUAL", "shape": [3, side, side]}
        for name in cameras
    }
    state = {"type": "STATE", "shape": [total_size(facts.states)]}
    return {
        "type": "pi05" if size.pi05 else "pi0",
        "n_obs_steps": 1,
        "input_features": {**images, "observation.state": state},
        "output_features": {"action": {"type": "ACTION", "shape": [total_size(facts.actions)]}},
        **variants(size),
        "dtype": "bfloat16" if model["precision"] == "bf16" else "float32",
        "chunk_size": size.action_horizon,
        "n_action_steps": model["num_action_chunks"],
        "max_state_dim": size.action_dim,
        "max_action_dim": size.action_dim,
        "num_inference_steps": model["openpi"]["num_steps"],
        "image_resolution": [side, side],
        "tokenizer_max_length": size.max_token_len,
    }


def _relative(mask: tuple[bool, ...], entries: int) -> dict[str, Any]:
    """Return LeRobot's settings of relative actions.

    LeRobot excludes entries by words in their names, so absolute ones are named "fixed_N".
    """
    if not any(mask):
        return {}
    whole = mask + (False,) * (entries - len(mask))
    names = [
        f"{'relative' if is_relative else 'fixed'}_{entry}"
        for entry, is_relative in enumerate(whole)
    ]
    return {
        "use_relative_actions": True,
        "relative_exclude_joints": ["fixed"],
        "action_feature_names": names,
    }


def _mode(formula: Formula) -> str:
    return "QUANTILES" if formula.quantile else "MEAN_STD"


def _lerobot_stats(stats: Stats, formula: Formula) -> dict[str, np.ndarray]:
    """Return float32 statistics with which LeRobot's formula gives the same results as ours."""
    if not formula.lerobot:
        upper = formula.fields[1]  # std, or the upper bound
        stats = replace(stats, **{upper: stats.pair(formula)[1] + OPENPI})
    return {
        name: values.astype(np.float32)
        for name, values in vars(stats).items()
        if values is not None
    }


def _steps(config: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the settings of the steps before and after the network by name, in LeRobot's order."""
    scale = {"eps": 1e-8, "norm_map": config["normalization_mapping"]}
    relative = config.get("use_relative_actions", False)
    features = {**config["input_features"], **config["output_features"]}
    device = {"device_processor": {"device": "cpu", "float_dtype": None}}
    settings = {
        "enabled": True,
        "exclude_joints": config.get("relative_exclude_joints"),
        "action_names": config.get("action_feature_names"),
    }
    prompt = "pi0_new_line_processor"
    if config["type"] == "pi05":
        prompt = "pi05_prepare_state_tokenizer_processor_step"
    before = {
        "rename_observations_processor": {"rename_map": {}},
        "to_batch_processor": {},
        **({"relative_actions_processor": settings} if relative else {}),
        "normalizer_processor": {**scale, "features": features},
        prompt: {},
        "tokenizer_processor": {
            "max_length": config["tokenizer_max_length"],
            "task_key": "task",
            "padding_side": "right",
            "padding": "max_length",
            "truncation": True,
            "tokenizer_name": _TOKENIZER,
        },
        **device,
    }
    after = {
        "unnormalizer_processor": {**scale, "features": config["output_features"]},
        **({"absolute_actions_processor": {"enabled": True}} if relative else {}),
        **device,
    }
    return before, after


def _write_processor(
    path: Path, steps: Mapping[str, Any], stats: Mapping[str, Mapping[str, np.ndarray]]
) -> None:
    """Write a processor file, and the statistics of its normalisation step next to it."""
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
    _write_json(path, {"name": path.stem, "steps": entries})


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    write_text(path, json.dumps(content, indent=2) + "\n")


LAYOUTS = {"lerobot": write_lerobot}
"""Exporters of a saved policy, by the name of the layout (`--layout`)."""
