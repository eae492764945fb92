"""Refuse or announce changes of settings that are fixed after a run's first update.

Each key, also of a plugin, declares it (`fixed=` of :func:`rlcore.config.schema.key`). Called
before workers start and before anything of the run is changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rlcore.checks.facts import Facts
from rlcore.checks.run import render_differs
from rlcore.config import schema_tree
from rlcore.config.old_names import warn
from rlcore.config.schema import RunConfig
from rlcore.contracts.errors import CheckpointError, ConfigError
from rlcore.run_folder.checkpoint import Checkpoint
from rlcore.run_folder.learner_state import MASTER, REFERENCE, check_learner
from rlcore.terminal.text import written


def check_fixed_keys(
    config: RunConfig, so_far: Mapping[str, Any], run: Path, at: Checkpoint, facts: Facts
) -> None:
    """Refuse changes that would be ignored, or measured against another start; warn of keys that
    have no effect any more, and of those under which the policy now sees other pixels.

    Args:
        config: with which it will go on.
        so_far: the configuration that the run had so far.
        run: its folder.
        facts: of the run with the checkpoint's policy.

    Raises:
        ConfigError: another start.
        CheckpointError: the checkpoint lacks what these settings need of it.
    """
    changed = list(_changed(config, so_far))
    for key, then in changed:
        if key.fixed == "weights" and _is_read(config, key) and not _moved(then):
            raise ConfigError(
                f"{key.path} can't be changed to {written(key.value)}: {run} began with "
                f"{written(then)} and goes on from {at.path.name}",
                hint=f"leave it out; a new run can begin with what this one has learned: "
                f"actor.model.model_path={at.policy_path}",
            )
    model, runner = config.actor.model, config.runner
    began_random = model.model_path is None and not config.sft.enabled
    for key, then in changed:
        if key.fixed == "start" and not config.sft.control:
            warn(f"{key.path} does nothing any more: the run goes on from {at.path.name}")
        if key.fixed == "initial" and began_random and runner.val_before_train:
            warn(
                f"{key.path} has no effect on the initial weights, which were drawn with "
                f"{written(then)}; a repeated evaluation before training would use others"
            )
    for sentence in render_differs(facts, at.path.name):
        warn(sentence)
    *_, tensors = check_learner(at.path)
    _check_reference(at, facts, tensors)
    _check_precision(at, config, tensors)


def _changed(config: RunConfig, so_far: Mapping[str, Any]) -> Iterator[tuple[schema_tree.Key, Any]]:
    """(key, value so far) of each fixed key that has another value now."""
    for key in schema_tree.walk(config):
        # an earlier version may not have had it
        then = schema_tree.find(so_far, key.path, key.value)
        if key.fixed != "no" and not key.section and then != key.value:
            yield key, then


def _is_read(config: RunConfig, key: schema_tree.Key) -> bool:
    return all(one.holds(schema_tree.value_of(config, one.other(key.path))) for one in key.when)


def _moved(then: Any) -> bool:
    """Whether the path that the run began with is gone: its new place may be given."""
    return isinstance(then, str) and not Path(then).exists()


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
    wanted = facts.needs is not None and facts.needs.reference_logprobs
    if wanted and not any(name.startswith(REFERENCE) for name in tensors):
        raise CheckpointError(
            f"{at.path} was written without reference weights, which algorithm="
            f"{facts.config.algorithm.name} needs, set as it is",
            hint="set the keys of algorithm as they were, or start a new run from its weights: "
            f"actor.model.model_path={at.policy_path}",
        )
