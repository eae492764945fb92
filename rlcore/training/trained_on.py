"""Check that an evaluation uses no start that any attempt of a run was trained on.

A resume may change the starts of training, but the weights were trained on the earlier ones too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from rlcore.checks.facts import env_spec
from rlcore.checks.held_out import Learned, evaluated_starts, in_short
from rlcore.config import schema_tree
from rlcore.config.recipes import read_mapping
from rlcore.config.schema import EnvConfig, RunConfig
from rlcore.contracts.errors import CheckpointError, ConfigError
from rlcore.contracts.specs import SPLITS
from rlcore.plugins.registry import Registry, load_plugins
from rlcore.runs import attempts
from rlcore.runs.folder import CONFIG, RunFolder

PLAIN = (str, int, float, bool, type(None))


def check_untrained(config: RunConfig, folder: RunFolder) -> None:
    """Refuse to evaluate a run's policy on starts that any attempt of the run trained on.

    Args:
        config: configuration of the evaluation; `env.eval.allow_training_trials` skips the check.
        folder: folder of the run.

    Raises:
        ConfigError: the evaluation uses such starts, or an attempt's configuration can't be read.
    """
    if config.env.eval.allow_training_trials:
        return
    registry = load_plugins()
    spec = env_spec(registry, "env.eval", config.env.eval)
    visited = evaluated_starts(config, {"eval": spec})
    for file, split, learned in _history(config, folder, registry):
        shared = learned.of(spec.name, visited)
        if shared:
            raise ConfigError(
                f"env.eval must not visit starts that {folder.path} was trained on, got "
                f"{in_short(shared)} under env.eval.split={config.env.eval.split}: "
                f"{file.relative_to(folder.path)} has env.train.split={split}",
                hint="env.eval.allow_training_trials=true evaluates on them anyway",
            )


def learned_before(config: RunConfig, folder: RunFolder | None) -> tuple[Learned, ...]:
    """Return what earlier attempts of a run trained the session's policy on.

    Empty unless `env.eval.allow_training_trials`, without which an evaluation on such starts is
    refused.

    Args:
        config: configuration of the session. If it only evaluates a checkpoint, the run that
            contains the checkpoint counts.
        folder: folder of the run that the session resumes, if it does.

    Raises:
        ConfigError: an attempt's configuration can't be read.
    """
    if not config.env.eval.allow_training_trials:
        return ()
    if config.runner.only_eval and config.actor.model.model_path is not None:
        folder = None
        with contextlib.suppress(CheckpointError):  # the checkpoint is outside of a run folder
            folder = RunFolder.containing(config.actor.model.model_path)
    if folder is None:
        return ()
    history = _history(config, folder, load_plugins())
    return tuple(dict.fromkeys(learned for _, _, learned in history))


def _history(
    config: RunConfig, folder: RunFolder, registry: Registry
) -> Iterator[tuple[Path, str, Learned]]:
    """Yield (configuration file, training split, training starts) of each attempt of a run.

    Attempts whose configuration names no known split are skipped.
    """
    for file in (*attempts.read_from_attempts(folder.path, CONFIG), folder.config):
        earlier = schema_tree.find(read_mapping(file), "env.train")
        if not isinstance(earlier, dict) or earlier.get("split") not in SPLITS:
            continue
        spec = env_spec(registry, "env.train", _with_earlier_values(config.env.train, earlier))
        tasks = tuple(earlier.get("tasks") or spec.tasks)
        yield file, earlier["split"], Learned(spec.name, tasks, spec.trials(earlier["split"]))


def _with_earlier_values(current: EnvConfig, earlier: Mapping[str, Any]) -> EnvConfig:
    """Return the current training settings with the scalar values of an earlier attempt.

    All tasks are selected. The attempt's file of sentences may no longer exist, and starts don't
    depend on it, so the current one is used.
    """
    names = [field.name for field in fields(current)]
    scalars = {
        name: earlier[name] for name in names if isinstance(earlier.get(name, current), PLAIN)
    }
    return replace(current, **scalars | {"tasks": None, "sentences": current.sentences})
