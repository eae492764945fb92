"""What a run that has made updates can't be told any more: what it began from, and what its
checkpoints hold. Looked at before workers start and before anything of the run is changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rlcore.checks.facts import Facts
from rlcore.config.old_names import warn
from rlcore.config.recipes import read_mapping
from rlcore.config.schema import RunConfig
from rlcore.errors import CheckpointError, ConfigError
from rlcore.track.checkpoint import LEARNER, Checkpoint
from rlcore.track.folder import RunFolder
from rlcore.track.headers import read_headers

BEGAN = (
    "sft.enabled",
    "actor.model.model_path",
    "rollout.model.model_path",
    "actor.model.is_lora",
)
"""Keys that decide which weights a run begins with, and which of them it trains."""
REFERENCE = "tensors/reference."  # how tensors of the learner begin that hold the reference weights
MADE_THE_START = ("collect", "sft")
"""Sections that are read until the supervised start is made, and again by `sft.control`."""


def check_settled(config: RunConfig, folder: RunFolder, at: Checkpoint, facts: Facts) -> None:
    """Refuse what would silently not be done, or would be measured of another start; say which
    keys come too late.

    Args:
        config: as it is to go on.
        folder: of the run, with the configuration that it had so far.
        facts: of the run with the checkpoint's policy.

    Raises:
        ConfigError: another start.
        CheckpointError: the checkpoint lacks what these settings need of it.
    """
    so_far = read_mapping(folder.config)
    for key in BEGAN:
        then, now = _at(so_far, key), _of(config, key)
        if then is not _UNKNOWN and then != now and not _moved(then):
            raise ConfigError(
                f"{key} can't be changed to {_written(now)}: {folder.path} began with "
                f"{_written(then)} and goes on from {at.path.name}",
                hint=f"leave it out; a new run can begin with what this one has learned: "
                f"actor.model.model_path={at.policy_path}",
            )
    if not config.sft.control:
        for key in _late(so_far, config):
            warn(f"{key} does nothing any more: the run goes on from {at.path.name}")
    _check_reference(at, facts)


def _check_reference(at: Checkpoint, facts: Facts) -> None:
    wanted = facts.needs is not None and facts.needs.reference_logprobs
    if not wanted:
        return
    tensors = read_headers(at.path / f"{LEARNER}.safetensors")
    if not any(name.startswith(REFERENCE) for name in tensors):
        raise CheckpointError(
            f"{at.path} was written without reference weights, which algorithm.kl_beta="
            f"{facts.config.algorithm.kl_beta} needs",
            hint="set algorithm.kl_beta as it was, or start a new run from its weights: "
            f"actor.model.model_path={at.policy_path}",
        )


def _late(so_far: Mapping[str, Any], config: RunConfig) -> Iterator[str]:
    """Keys of the start that have another value than so far."""
    for section in MADE_THE_START:
        for name in vars(vars(config)[section]):
            key = f"{section}.{name}"
            then = _at(so_far, key)
            if then is not _UNKNOWN and then != _of(config, key):
                yield key


_UNKNOWN = object()


def _at(values: Mapping[str, Any], key: str) -> Any:
    found: Any = values
    for name in key.split("."):
        if not isinstance(found, Mapping) or name not in found:
            return _UNKNOWN
        found = found[name]
    return found


def _of(config: RunConfig, key: str) -> Any:
    found: Any = config
    for name in key.split("."):
        found = vars(found)[name]
    return found


def _moved(then: Any) -> bool:
    """Whether what the run began with is gone: it may be given where it is now."""
    return isinstance(then, str) and not Path(then).exists()


def _written(value: Any) -> str:
    return (
        "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    )
