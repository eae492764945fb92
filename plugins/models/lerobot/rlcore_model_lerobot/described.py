"""Describe what a policy of LeRobot takes and gives: of a folder, or of one to be built. No torch.

LeRobot names a feature by its place in a data set: `observation.images.top`, `observation.state`,
`action`. Its `config.json` lists the features with their shapes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlcore.contracts.errors import CheckpointError, ConfigError
from rlcore.contracts.specs import EnvSpec
from rlcore.files.damaged_files import damaged_on, read_mapping
from rlcore_model_lerobot.settings import LeRobotModelConfig

CONFIG_FILE = "config.json"
WEIGHTS = "model.safetensors"
BEFORE = "policy_preprocessor.json"
AFTER = "policy_postprocessor.json"
STATE = "observation.state"
IMAGES = "observation.images."
ACTION = "action"

_EMPTY = "empty_camera"  # LeRobot fills these features itself, with black pictures
_HORIZONS = ("chunk_size", "horizon", "action_chunk_size")
_DIFFUSION_HORIZON = 16
_DIFFUSION_STAGES = 3


@dataclass(frozen=True)
class Described:
    """What a policy takes and gives, in LeRobot's names.

    Attributes:
        type: LeRobot's name of the kind of policy.
        images: shapes (3, height, width) of the pictures, by feature, in LeRobot's order.
        state: entries of `observation.state`; 0: it is not read.
        other: further inputs that it needs.
        action: entries of an action.
        horizon: H, actions predicted from the current observation on.
        observations: steps that it sees (`n_obs_steps`).
        resizes: whether it resizes pictures itself, so that theirs may have any size.
    """

    type: str
    images: Mapping[str, tuple[int, ...]]
    state: int
    other: tuple[str, ...]
    action: int
    horizon: int
    observations: int = 1
    resizes: bool = False


def further_fields(config: LeRobotModelConfig) -> dict[str, Any]:
    """Return the fields of `actor.model.lerobot.config`.

    Raises:
        ConfigError: it is no mapping.
    """
    fields = config.lerobot.config
    if fields is None:
        return {}
    if not isinstance(fields, Mapping):
        raise ConfigError(
            f"actor.model.lerobot.config must be a mapping from fields to values, got {fields!r}",
            hint="'actor.model.lerobot.config={dim_model: 128}'",
        )
    return {str(name): value for name, value in fields.items()}


def described(config: LeRobotModelConfig, env: EnvSpec) -> Described:
    """Describe the policy in `model_path`, or the one that is built for the env.

    Raises:
        ConfigError: the type can't be built for this env, has no horizon, or averages decisions.
        CheckpointError: the folder is not one of LeRobot 0.4 or later.
    """
    fields = further_fields(config)
    if config.model_path is not None:
        return _of_folder(Path(config.model_path), fields)
    return _of_env(config, env, fields)


def _of_folder(folder: Path, fields: Mapping[str, Any]) -> Described:
    if not folder.is_dir():
        raise CheckpointError(
            f"actor.model.model_path {str(folder)!r} is not a folder",
            hint="give the folder of a policy that LeRobot saved, or null to build one",
        )
    path = folder / CONFIG_FILE
    content = {**read_mapping(path), **fields}
    if not isinstance(content.get("type"), str):
        raise CheckpointError(
            f"{path} has no type, which names a policy of LeRobot",
            hint="model=NAME chooses the model that the folder is of",
        )
    _check_files(folder)
    with damaged_on(path):
        inputs = {
            name: (feature["type"], tuple(map(int, feature["shape"])))
            for name, feature in (content["input_features"] or {}).items()
        }
        action = content["output_features"][ACTION]["shape"][0]
        observations = int(content.get("n_obs_steps", 1))
        horizon = next((int(content[name]) for name in _HORIZONS if content.get(name)), 0)
    if not horizon:
        raise ConfigError(
            f"{path} has none of {', '.join(_HORIZONS)}, so we can't tell how many actions a "
            f"{content['type']} predicts; act, diffusion, pi0, pi05, pi0_fast, smolvla, groot, "
            "xvla, wall_x, vqbet and tdmpc have one",
            hint="give the folder of a policy of such a type",
        )
    _check_no_ensembling(content)
    images = {
        name: shape
        for name, (kind, shape) in inputs.items()
        if kind == "VISUAL" and not name.removeprefix(IMAGES).startswith(_EMPTY)
    }
    others = [
        name
        for name, (kind, _) in inputs.items()
        if kind not in ("VISUAL", "LANGUAGE") and name != STATE
    ]
    # a diffusion over several observations begins at the first of them
    past = observations - 1 if "horizon" in content else 0
    return Described(
        type=content["type"],
        images=images,
        state=inputs[STATE][1][0] if STATE in inputs else 0,
        other=tuple(others),
        action=int(action),
        horizon=horizon - past,
        observations=observations,
        resizes=any(
            content.get(name)
            for name in ("resize_imgs_with_padding", "image_resolution", "resize_shape")
        ),
    )


def _check_no_ensembling(fields: Mapping[str, Any]) -> None:
    """Check that ACT averages no actions over decisions: each decision begins with a reset.

    Raises:
        ConfigError: it does.
    """
    coefficient = fields.get("temporal_ensemble_coeff")
    if coefficient is not None:
        raise ConfigError(
            f"temporal_ensemble_coeff={coefficient}: LeRobot then averages the actions of several "
            "decisions, and a decision of rlcore depends on no earlier one",
            hint="'actor.model.lerobot.config={temporal_ensemble_coeff: null}'",
        )


def _check_files(folder: Path) -> None:
    """Check that the folder has weights and processors, which run none but registered code.

    Raises:
        CheckpointError: a file is missing, or a step of a processor names a class to import.
    """
    for name in (WEIGHTS, BEFORE, AFTER):
        if not (folder / name).is_file():
            raise CheckpointError(
                f"{folder} has no {name}",
                hint="LeRobot before 0.4 wrote no processors: python -m "
                "lerobot.processor.migrate_policy_normalization --pretrained-path FOLDER adds them"
                if name != WEIGHTS
                else "adapters of peft must be merged first; else copy the folder again",
            )
    for name in (BEFORE, AFTER):
        path = folder / name
        with damaged_on(path):
            steps = [dict(step) for step in read_mapping(path)["steps"]]
        for step in steps:
            if "registry_name" not in step:
                raise CheckpointError(
                    f"{path} asks for the class {step.get('class')}, and a checkpoint may not say "
                    "which code is imported",
                    hint="register the step in LeRobot (ProcessorStepRegistry) and save again",
                )


def step_names(path: Path) -> list[str]:
    """Return the registered names of the steps of a processor's file."""
    return [str(step["registry_name"]) for step in read_mapping(path)["steps"]]


def _of_env(config: LeRobotModelConfig, env: EnvSpec, fields: Mapping[str, Any]) -> Described:
    kind = config.lerobot.type
    _check_no_ensembling(fields)
    if not env.cameras or (kind == "diffusion" and not env.state_dim):
        needs = "a camera" if kind == "act" else "a camera and a state"
        raise ConfigError(
            f"LeRobot's {kind} needs {needs}, and {env.name} has {len(env.cameras)} cameras and "
            f"{env.state_dim} state entries",
            hint="give env.train a camera (rlcore train --help env)",
        )
    cameras = env.cameras[: config.images(len(env.cameras))]
    return Described(
        type=kind,
        images={f"{IMAGES}{camera.name}": (3, camera.height, camera.width) for camera in cameras},
        state=env.state_dim,
        other=(),
        action=env.action_dim,
        horizon=_built_horizon(config, fields),
    )


def _built_horizon(config: LeRobotModelConfig, fields: Mapping[str, Any]) -> int:
    """Return H of a policy that is built: that of `lerobot.config`, else the smallest that fits C.

    The U-Net of `diffusion` halves the horizon once per stage.
    """
    chunks = config.num_action_chunks
    if config.lerobot.type == "act":
        return int(fields.get("chunk_size", chunks))
    factor = 2 ** len(fields.get("down_dims", range(_DIFFUSION_STAGES)))
    least = max(chunks, _DIFFUSION_HORIZON) if "down_dims" not in fields else chunks
    return int(fields.get("horizon", -(-least // factor) * factor))
