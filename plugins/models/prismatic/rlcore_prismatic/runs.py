"""Read run folders of RLinf's trainer, and check that no file is missing. No torch.

RUN/checkpoints/global_step_N/actor/model_state_dict/full_weights.pt    weights, and nothing else
RUN/tensorboard/config.yaml, or RUN/config.yaml                         the run's configuration

All other files of such a checkpoint must be copied from the model that the run started from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rlcore_weights.layouts import FULL_WEIGHTS, StoredWeights, full_scale, weights_file

from rlcore.config.warning import warn
from rlcore.contracts.errors import CheckpointError
from rlcore.files.damaged_files import read_mapping
from rlcore.files.reading import read_yaml
from rlcore_prismatic.adapters import ADAPTERS_CONFIG, adapter_settings
from rlcore_prismatic.config_files import PREPROCESSOR_FILE
from rlcore_prismatic.folders import Folders
from rlcore_prismatic.statistics import CONFIG_FILE
from rlcore_prismatic.statistics import FILE_NAME as STATISTICS_FILE

_COPIED_FILES = (CONFIG_FILE, PREPROCESSOR_FILE, "tokenizer.json", STATISTICS_FILE)
_ABOVE = 6  # number of folders above the weights that are searched for the configuration
# In OpenVLA-OFT's trainer alpha is the rank, but at most this. RLinf follows it where it wraps a
# network with FiLM.
_TRAINER_ALPHA = 16


def trainer_scale(rank: int) -> float:
    """Return alpha / rank as OpenVLA-OFT's trainer sets it: alpha = min(rank, 16)."""
    return min(rank, _TRAINER_ALPHA) / rank


def network_scale(base: Path, stored: StoredWeights) -> Callable[[int], float]:
    """Return the function from rank to alpha / rank for unmerged adapters stored with a network.

    Their alpha is not stored; it follows from the trainer that saved them. If peft had wrapped the
    policy, that was RLinf's trainer, otherwise the original one. RLinf's trainer sets alpha to the
    rank, unless the run started from adapters in `lora_path`. Then alpha is the one in their
    `adapter_config.json`, which is searched in `base` and in the `lora_path` of the run's
    configuration.

    Args:
        base: the network's folder.
        stored: the network's weights.

    Raises:
        CheckpointError: the run started from a `lora_path` whose `adapter_config.json` is missing.
    """
    if not stored.adapters:
        return full_scale
    if not stored.peft:
        return trainer_scale
    lora_path = _run_model(base).get("lora_path")
    places = [base, *([Path(lora_path)] if isinstance(lora_path, str) else [])]
    for place in places:
        if (place / ADAPTERS_CONFIG).is_file():
            alpha = adapter_settings(place).plain_alpha
            return lambda rank: alpha / rank
    if len(places) > 1:
        raise CheckpointError(
            f"{base} holds adapters that were not merged, without their alpha, which is that of "
            f"the run's lora_path {lora_path!r}; there is no {ADAPTERS_CONFIG} in it here",
            hint=f"copy the {ADAPTERS_CONFIG} from there to {base}",
        )
    warn(
        f"{base} holds adapters that were not merged, without their alpha, which is assumed to be "
        "their rank, as RLinf's trainer sets it. If the run started from a lora_path, copy the "
        f"{ADAPTERS_CONFIG} from there to {base}"
    )
    return full_scale


def check_copied_files(folders: Folders) -> None:
    """Check that the files that RLinf's trainer does not save were copied into a run's folder.

    Without them the network would be taken for one of another trainer.

    Raises:
        CheckpointError: files are missing; the message names all of them, and where they are.
    """
    weights = weights_file(folders.base)
    if weights is None or weights.name != FULL_WEIGHTS:
        return
    missing = [name for name in _COPIED_FILES if not folders.find(name).is_file()]
    config = folders.find(CONFIG_FILE)
    if STATISTICS_FILE in missing and config.is_file() and read_mapping(config).get("norm_stats"):
        missing.remove(STATISTICS_FILE)
    if missing:
        model_path = _run_model(folders.base).get("model_path")
        source = "START"
        explanation = ", where START is its actor.model.model_path"
        if isinstance(model_path, str):
            source = model_path
            explanation = ""
        # if that folder exists, its statistics may be in another one of the files
        available = [name for name in missing if (Path(source) / name).is_file()]
        raise CheckpointError(
            f"{folders.base} holds a run's weights, but has no {', '.join(missing)}",
            hint="copy them from the model that the run started from: cp "
            f"{' '.join(f'{source}/{name}' for name in available or missing)} "
            f"{folders.base}{explanation}",
        )


def _run_model(base: Path) -> Mapping[str, Any]:
    """Return `actor.model` of the run that wrote a folder; empty if no configuration is found."""
    for folder in (base, *base.resolve().parents[:_ABOVE]):
        for file in (folder / "config.yaml", folder / "tensorboard" / "config.yaml"):
            try:
                model = read_yaml(file)["actor"]["model"]
            except (OSError, ValueError, KeyError, TypeError):
                continue
            return model if isinstance(model, dict) else {}
    return {}
