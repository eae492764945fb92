"""Refuse changes to settings that are fixed after a run's first update, or warn of them.

Each key, including those of plugins, declares whether it is fixed (`fixed=` of
:func:`rlcore.config.schema.key`). The check runs before workers start and before any file of the
run changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rlcore.checks.facts import Facts
from rlcore.checks.run import render_differs
from rlcore.config import schema_tree
from rlcore.config.schema import RunConfig
from rlcore.config.warning import warn
from rlcore.contracts.errors import CheckpointError, ConfigError
from rlcore.runs.checkpoint import Checkpoint
from rlcore.runs.learner_state import MASTER, REFERENCE, TRAINED, check_learner
from rlcore.utils.text import format_value


def check_fixed_keys(
    config: RunConfig, so_far: Mapping[str, Any], run: Path, at: Checkpoint, facts: Facts
) -> None:
    """Check the changed settings of a run that is about to resume.

    Changes of keys that determine the weights (their source, adapters, the trained parameters) are
    refused. Warnings name changed keys that no longer have an effect, and render settings that now
    give the policy other pixels than those it was trained on.

    Args:
        config: the configuration of the resumed run.
        so_far: the run's configuration before this resume, as nested mappings.
        run: the run's folder.
        at: the checkpoint to resume from.
        facts: facts of the resumed run with the checkpoint's policy.

    Raises:
        ConfigError: a key that determines the weights has changed. A new value is accepted if the
            previous value is a path that no longer exists.
        CheckpointError: the checkpoint lacks reference weights that the algorithm needs, or holds
            fp32 copies of parameters that `actor.model.precision=fp32` does not use.
    """
    changed = list(changed_keys(config, so_far))
    for key, previous in changed:
        if key.fixed == "weights" and is_read(config, key) and not has_moved(previous):
            raise ConfigError(
                f"{key.path} can't be changed to {format_value(key.value)}: {run} began with "
                f"{format_value(previous)} and resumes from {at.path.name}",
                hint=f"leave it out; a new run can start from the weights of this one: "
                f"actor.model.model_path={at.policy_path}",
            )
    model = config.actor.model
    runner = config.runner
    began_random = model.model_path is None and not config.sft.enabled
    for key, previous in changed:
        if key.fixed == "start" and not config.sft.control:
            warn(f"{key.path} has no effect: the run resumes from {at.path.name}")
        if key.fixed == "initial" and began_random and runner.val_before_train:
            warn(
                f"{key.path} has no effect on the initial weights, which were drawn with "
                f"{format_value(previous)}; a repeated evaluation before training would use others"
            )
    for sentence in render_differs(facts, at.path.name):
        warn(sentence)
    if not config.supervised_only:  # else there is no learner
        *_, tensors = check_learner(at.path)
        _check_reference(at, facts, tensors)
        _check_average(at, facts, tensors)
        _check_precision(at, config, tensors)


def changed_keys(
    config: RunConfig, so_far: Mapping[str, Any]
) -> Iterator[tuple[schema_tree.Key, Any]]:
    """Yield (key, previous value) of each fixed key whose value has changed."""
    for key in schema_tree.walk(config):
        # a key that the previous configuration lacks counts as unchanged
        previous = schema_tree.find(so_far, key.path, key.value)
        if key.fixed != "no" and not key.section and previous != key.value:
            yield key, previous


def is_read(config: RunConfig, key: schema_tree.Key) -> bool:
    """Return whether the key has an effect under the other settings."""
    return all(
        condition.holds(schema_tree.value_of(config, condition.other(key.path)))
        for condition in key.when
    )


def has_moved(value: Any) -> bool:
    """Return whether a path no longer exists.

    The user may then give the new path of weights that were moved.
    """
    return isinstance(value, str) and not Path(value).exists()


def _check_precision(at: Checkpoint, config: RunConfig, tensors: Iterable[str]) -> None:
    precision = config.actor.model.precision
    if precision == "fp32" and any(name.endswith(f".{MASTER}") for name in tensors):
        raise CheckpointError(
            f"{at.path} holds fp32 copies of bf16 parameters, which actor.model.precision="
            f"{precision} does not use",
            hint="set actor.model.precision as it was, or start a new run from its weights: "
            f"actor.model.model_path={at.policy_path}",
        )


def _check_reference(at: Checkpoint, facts: Facts, tensors: Iterable[str]) -> None:
    needs_reference = facts.needs is not None and facts.needs.reference_logprobs
    if needs_reference and not any(name.startswith(REFERENCE) for name in tensors):
        raise CheckpointError(
            f"{at.path} was written without reference weights, which algorithm="
            f"{facts.config.algorithm.name} needs, set as it is",
            hint="set the keys of algorithm as they were, or start a new run from its weights: "
            f"actor.model.model_path={at.policy_path}",
        )


def _check_average(at: Checkpoint, facts: Facts, tensors: Iterable[str]) -> None:
    has_average = any(name.startswith(TRAINED) for name in tensors)
    if has_average and facts.needs is not None and facts.needs.policy_ema is None:
        raise CheckpointError(
            f"the policy of {at.path} is a moving average of the trained weights, which algorithm="
            f"{facts.config.algorithm.name}, set as it is, does not continue",
            hint="set the keys of algorithm as they were, or start a new run from the average: "
            f"actor.model.model_path={at.policy_path}",
        )
