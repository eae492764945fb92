"""Check that an evaluation visits no start that a run was trained on, in any of its attempts.

A resume may have changed the starts of training, and the weights were trained on the earlier ones
too. Knows nothing of checkpoints.
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
from rlcore.run_folder import attempts
from rlcore.run_folder.folder import CONFIG, RunFolder

PLAIN = (str, int, float, bool, type(None))


def check_untrained(config: RunConfig, folder: RunFolder) -> None:
    """Refuse to evaluate what a run has learned at starts that any attempt of it trained on.

    Args:
        config: as it will be evaluated.
        folder: of the run.

    Raises:
        ConfigError: such starts, not asked for by name; or a configuration that can't be read.
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
    """What the policy of a session was trained on by the attempts so far of its run; nothing where
    a run with such starts would have been refused.

    Args:
        config: of the session; one that only evaluates asks the run of its checkpoint.
        folder: of the run that it goes on with, if any.

    Raises:
        ConfigError: a configuration that can't be read.
    """
    if not config.env.eval.allow_training_trials:
        return ()
    if config.runner.only_eval and config.actor.model.model_path is not None:
        folder = None
        with contextlib.suppress(CheckpointError):  # of no run
            folder = RunFolder.containing(config.actor.model.model_path)
    if folder is None:
        return ()
    history = _history(config, folder, load_plugins())
    return tuple(dict.fromkeys(learned for _, _, learned in history))


def _history(
    config: RunConfig, folder: RunFolder, registry: Registry
) -> Iterator[tuple[Path, str, Learned]]:
    """(configuration, its split, what was trained on) of each attempt of a run."""
    for file in (*attempts.read_from_attempts(folder.path, CONFIG), folder.config):
        then = schema_tree.find(read_mapping(file), "env.train")
        if not isinstance(then, dict) or then.get("split") not in SPLITS:
            continue
        spec = env_spec(registry, "env.train", _as_then(config.env.train, then))
        tasks = tuple(then.get("tasks") or spec.tasks)
        yield file, then["split"], Learned(spec.name, tasks, spec.trials(then["split"]))


def _as_then(now: EnvConfig, then: Mapping[str, Any]) -> EnvConfig:
    """The settings of training with the plain values of an attempt, and with all tasks; its file
    of sentences may be gone, and starts don't depend on it."""
    names = [field.name for field in fields(now)]
    known = {name: then[name] for name in names if isinstance(then.get(name, now), PLAIN)}
    return replace(now, **known | {"tasks": None, "sentences": now.sentences})
