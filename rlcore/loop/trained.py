"""What a run was trained on so far, by its whole history: a resume may have changed the starts of
training, and the weights remember the former ones. Knows nothing of checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from rlcore.checks.facts import env_spec
from rlcore.checks.starts import evaluated_starts, in_short
from rlcore.config.recipes import read_mapping
from rlcore.config.schema import EnvConfig, RunConfig
from rlcore.errors import ConfigError
from rlcore.plugins import Registry, load_plugins
from rlcore.specs import EnvSpec
from rlcore.track import attempts
from rlcore.track.folder import CONFIG, RunFolder

PLAIN = (str, int, float, bool, type(None))


def check_untrained(config: RunConfig, folder: RunFolder) -> None:
    """Refuse to evaluate what a run has learned at starts that any attempt of it trained on.

    Args:
        config: as it is to be evaluated.
        folder: of the run.

    Raises:
        ConfigError: such starts, not asked for by name; or a configuration that can't be read.
    """
    if config.env.eval.allow_training_trials:
        return
    registry = load_plugins()
    spec = env_spec(registry, "env.eval", config.env.eval)
    visited = evaluated_starts(config, {"eval": spec})
    for file in (*attempts.papers(folder.path, CONFIG), folder.config):
        for tasks, trials, split in _trained(read_mapping(file), config, registry, spec):
            shared = [start for start in visited if start[0] in tasks and start[1] in trials]
            if shared:
                raise ConfigError(
                    f"env.eval must visit no start that {folder.path} was trained on, got "
                    f"{in_short(shared)} under env.eval.split={config.env.eval.split}: "
                    f"{file.relative_to(folder.path)} has env.train.split={split}",
                    hint="env.eval.allow_training_trials=true measures on them all the same",
                )


def _trained(
    values: Mapping[str, Any], config: RunConfig, registry: Registry, evaluated: EnvSpec
) -> Iterator[tuple[tuple[str, ...], range, str]]:
    """Tasks, trials and split that a configuration trained on, if it was in the env `evaluated`."""
    env = values.get("env")
    then = env.get("train") if isinstance(env, dict) else None
    if not isinstance(then, dict) or then.get("split") not in ("train", "heldout"):
        return
    spec = env_spec(registry, "env.train", _as_then(config.env.train, then))
    if spec.name == evaluated.name:
        yield tuple(then.get("tasks") or spec.tasks), spec.trials(then["split"]), then["split"]


def _as_then(now: EnvConfig, then: Mapping[str, Any]) -> EnvConfig:
    """The settings of training with the plain values of an attempt, and with all tasks; its file
    of sentences may be gone, and starts don't depend on it."""
    known = {name: then[name] for name in vars(now) if isinstance(then.get(name, now), PLAIN)}
    return replace(now, **known | {"tasks": None, "sentences": now.sentences})
