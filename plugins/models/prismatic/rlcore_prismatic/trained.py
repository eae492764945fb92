"""Compare the settings that a checkpoint was trained with to the run's settings. No torch.

Weights fit many settings that they were not trained with: another length of a decision, another
form of the sequence. Our checkpoints keep their settings in `config.json`; published ones do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlcore.config.warning import warn
from rlcore.contracts.errors import CheckpointError
from rlcore.files.damaged_files import read_mapping
from rlcore.utils.text import format_value
from rlcore_prismatic.config_files import RLCORE
from rlcore_prismatic.folders import Folders
from rlcore_prismatic.settings import PrismaticModelConfig
from rlcore_prismatic.statistics import CONFIG_FILE

AUGMENTED = "image_aug"  # the original trainer's name for random crops of 90%


def written_settings(folders: Folders) -> dict[str, Any]:
    """Return the settings that rlcore saved with a checkpoint; empty for others' checkpoints.

    For adapters without settings they are those of the model that is adapted.
    """
    path = folders.find(CONFIG_FILE)
    if not path.exists():
        return {}
    ours = read_mapping(path).get(RLCORE)
    settings = ours.get("model") if isinstance(ours, dict) else None
    return settings if isinstance(settings, dict) else {}


def check_kind(config: PrismaticModelConfig, folders: Folders) -> None:
    """Check that the checkpoint is of this model type.

    Raises:
        CheckpointError: it is of another type; the message names that.
    """
    kind = written_settings(folders).get("model_type", config.model_type)
    if kind != config.model_type:
        raise CheckpointError(
            f"{folders.own} is a checkpoint of model {kind!r}, not of {config.model_type!r}",
            hint=f"set model={kind}, or another actor.model.model_path",
        )


def check_same(config: PrismaticModelConfig, folders: Folders, names: Sequence[str]) -> None:
    """Check that settings equal those that the checkpoint was trained with.

    Args:
        names: names of the settings to compare; settings that are null or that the checkpoint does
            not record are skipped.

    Raises:
        CheckpointError: settings differ; one error names all of them.
    """
    trained = written_settings(folders)
    current = vars(config)
    different = [
        name
        for name in names
        if current[name] is not None and trained.get(name, current[name]) != current[name]
    ]
    if different:
        mismatches = [
            f"actor.model.{name} must be {format_value(trained[name])}, got "
            f"{format_value(current[name])}"
            for name in different
        ]
        raise CheckpointError(
            f"{folders.own} was trained with other settings: {'; '.join(mismatches)}",
            hint="set "
            + " ".join(f"actor.model.{name}={format_value(trained[name])}" for name in different),
        )


def check_crop(config: PrismaticModelConfig, folders: Folders) -> None:
    """Check `center_crop=false` against the name of a published checkpoint, or warn.

    Published checkpoints don't record whether they were trained on cropped images. Only a name
    chosen by the original code shows it. With the wrong setting the policy gets images unlike those
    of its training.

    Raises:
        CheckpointError: the name shows training on crops, and center_crop is false.
    """
    if config.center_crop or written_settings(folders):
        return
    key = "actor.model.center_crop"
    if any(AUGMENTED in str(place) for place in folders.places):
        raise CheckpointError(
            f"{folders.own} was trained with random crops (its name contains {AUGMENTED}): {key} "
            "must be true, got false",
            hint=f"set {key}=true",
        )
    warn(
        f"{key}=false: {folders.own} does not record whether it was trained with random crops "
        f"({AUGMENTED}), like most published fine-tunes; those need {key}=true"
    )
