"""Handle run folders of RLinf's trainer, and find what they lack. No torch.

RUN/checkpoints/global_step_N/actor/model_state_dict/full_weights.pt    weights, and nothing else
RUN/tensorboard/config.yaml, or RUN/config.yaml                         the run's configuration

The files beside the weights are those of the model that the run began with.
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

_BESIDE = (CONFIG_FILE, PREPROCESSOR_FILE, "tokenizer.json", STATISTICS_FILE)
_ABOVE = 6  # folders above the weights in which the configuration is looked for
# In OpenVLA-OFT's trainer alpha is the rank, but at most this. RLinf follows it where it wraps a
# network with FiLM.
_TRAINER_ALPHA = 16


def trainer_scale(rank: int) -> float:
    """Return alpha / rank as OpenVLA-OFT's trainer sets it: alpha = min(rank, 16)."""
    return min(rank, _TRAINER_ALPHA) / rank


def network_scale(base: Path, stored: StoredWeights) -> Callable[[int], float]:
    """alpha / rank of adapters that were saved with a network without being merged; their alpha is
    not saved. By who saved them: RLinf's trainer, where peft wrapped the policy, or else the
    original one.

    RLinf's sets alpha to the rank, unless the run began with adapters from `lora_path`: then it is
    theirs, as their `adapter_config.json` says, which is looked for beside the weights and where
    the run's configuration says.

    Args:
        base: the network's folder.
        stored: its weights.
    """
    if not stored.adapters:
        return full_scale
    if not stored.peft:
        return trainer_scale
    began_with = _run_model(base).get("lora_path")
    places = [base, *([Path(began_with)] if isinstance(began_with, str) else [])]
    for place in places:
        if (place / ADAPTERS_CONFIG).is_file():
            alpha = adapter_settings(place).plain_alpha
            return lambda rank: alpha / rank
    if len(places) > 1:
        raise CheckpointError(
            f"{base} holds adapters that were not merged, without their alpha: it is that of the "
            f"lora_path that the run began with, {began_with!r}, which has no {ADAPTERS_CONFIG} "
            "here",
            hint=f"copy the {ADAPTERS_CONFIG} from there to {base}",
        )
    warn(
        f"{base} holds adapters that were not merged, without their alpha: it is taken to be their "
        "rank, as RLinf's trainer sets it. If the run began with a lora_path, copy the "
        f"{ADAPTERS_CONFIG} from there to {base}"
    )
    return full_scale


def check_beside(folders: Folders) -> None:
    """Refuse a run's folder to which the files beside its weights were not copied yet: a network
    without them would be taken for one of another trainer.

    Raises:
        CheckpointError: names all of them, and where they are.
    """
    weights = weights_file(folders.base)
    if weights is None or weights.name != FULL_WEIGHTS:
        return
    missing = [name for name in _BESIDE if not folders.find(name).is_file()]
    config = folders.find(CONFIG_FILE)
    if STATISTICS_FILE in missing and config.is_file() and read_mapping(config).get("norm_stats"):
        missing.remove(STATISTICS_FILE)
    if missing:
        began_with = _run_model(folders.base).get("model_path")
        start = began_with if isinstance(began_with, str) else "START"
        # that folder, if it is here, may have its statistics in another one of the files
        there = [name for name in missing if (Path(start) / name).is_file()]
        known = "" if start == began_with else ", where START is its actor.model.model_path"
        raise CheckpointError(
            f"{folders.base} holds a run's weights, but has no {', '.join(missing)}",
            hint="copy them from the model that the run began with: cp "
            f"{' '.join(f'{start}/{name}' for name in there or missing)} "
            f"{folders.base}{known}",
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
