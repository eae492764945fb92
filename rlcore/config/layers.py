"""Bind layers of values to the schema, and complete what they leave open.

values of the files < values of the command line --merge, bind--> sections --complete--> RunConfig

Completing makes paths absolute, gives the policy a critic where the algorithm needs one, and looks
up instructions.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import fields
from pathlib import Path

from rlcore.config import instructions, schema_tree
from rlcore.config.bind import bind, merge, schema_for
from rlcore.config.component_specs import algorithm_needs
from rlcore.config.run_name import run_name
from rlcore.config.scalars import resolve_scalars
from rlcore.config.schema import RecipeConfig, RunConfig
from rlcore.config.schema.env import OWN_INSTRUCTIONS
from rlcore.config.schema.sources import MISSING, Sources
from rlcore.config.translation import Values, take, translate_foreign_keys
from rlcore.config.warning import warn
from rlcore.contracts.errors import ConfigError, UserError, collect_errors, join_errors
from rlcore.files import hub
from rlcore.plugins.registry import Registry


class MissingValueError(ConfigError):
    """Raised for a required key that has no value."""


class IncompleteRecipeError(ConfigError):
    """Raised for a configuration with faults that leave the rest of it usable.

    Attributes:
        errors: one error for each fault.
        draft: the frozen configuration, with defaults in place of the values at fault.
    """

    def __init__(self, errors: Sequence[UserError], draft: RunConfig) -> None:
        joint = join_errors(errors)
        super().__init__(joint.message, hint=joint.hint)
        self.errors = tuple(errors)
        self.draft = draft


def bind_layers(
    file_values: Values,
    layers: Sequence[Values],
    registry: Registry,
    origin: RecipeConfig | None = None,
    sources: Sources | None = None,
    run: Path | None = None,
    require_trust: Callable[[RunConfig], None] | None = None,
) -> RunConfig:
    """Merge the values of the files and then each layer, and bind the result to the schema.

    Args:
        file_values: values of the files, unresolved.
        layers: values of the command line; later layers win.
        origin: what the run is composed from; None for a configuration that was composed before.
        sources: the files that it is composed from; None for a configuration that was saved.
        run: the folder of the run that saved the values; None for values that are composed.
        require_trust: raises an error for a saved configuration that sets keys which load code, and
            may not; None for values of this process.

    Returns:
        The frozen configuration.

    Raises:
        IncompleteRecipeError: required keys without a value, instructions that can't be read, or an
            env whose state must be chosen.
        ConfigError: an unknown key, a wrong type, or a path that can't be made absolute.
    """
    raw = [file_values, *layers]
    plugin_values = file_values.get("plugins", {}) if run else {}
    for name in [name for name in plugin_values if name not in registry.settings]:
        warn(f"plugins.{name} is left out: no such plugin is loaded")
        del plugin_values[name]
    root = schema_for(registry, raw)
    raw = [resolve_scalars(layer, root) for layer in raw]
    translate_foreign_keys(raw, registry, root)
    if origin is not None:
        root.recipe = origin
    name = run_name(sources.files.choices) if sources else None
    if name is not None:  # values of files and of the command line still win
        root.runner.logger.experiment_name = name
    values: Values = {}
    merge(values, raw[0], root)
    saved = deepcopy(values)
    for layer in raw[1:]:
        merge(values, layer, root)
    errors: list[UserError] = [*_missing_values(values, root)]
    config = bind(values, root)
    config.recipe.sources = sources
    _add_critic(config, registry)
    _make_paths_absolute(config)
    if run is not None:
        _relocate_paths(config, run)
    _share_checkpoint(config)
    model = config.actor.model
    if model.model_type in registry.names("model"):
        model.resolve(registry.get("model", model.model_type).spec)
    for side, env in config.env.sides.items():
        value = env.sentences
        env.sentences = OWN_INSTRUCTIONS  # of the draft, if the value is invalid
        with collect_errors(errors):
            env.sentences = instructions.resolve(
                value, f"env.{side}.sentences", env.env_type, config.actor.model.model_path
            )
        if env.env_type in registry.names("env"):
            env.resolve(registry.get("env", env.env_type).spec)
            if origin is not None:
                with collect_errors(errors):
                    env.derive()
    if origin is None:
        if require_trust is not None:
            require_trust(config)  # deriving loads code of the env
        _derive_again(config, saved, raw[1:], errors)
    config.freeze()
    if errors:
        raise IncompleteRecipeError(errors, config)
    return config


def _derive_again(
    config: RunConfig, saved: Values, layers: Sequence[Values], errors: list[UserError]
) -> None:
    """Have each env derive again the keys that depend on keys of `layers`; collect errors."""
    for side, env in config.env.sides.items():
        path = f"env.{side}"
        written = {name.lower() for layer in layers for name in schema_tree.find(layer, path, {})}
        given = {field.name for field in fields(env) if field.name.lower() in written}
        with collect_errors(errors):
            env.derive_again(schema_tree.find(saved, path, {}), given)


def _missing_values(values: Values, root: RunConfig) -> Iterator[ConfigError]:
    """Yield an error for each required key without a value, and remove its `???` from `values`."""
    for key in schema_tree.walk(root):
        if schema_tree.find(values, key.path) == MISSING:
            take(values, key.path)
            help_text = f": {key.help}" if key.help else ""
            yield MissingValueError(
                f"{key.path} must be given{help_text}", hint=f"rlcore train --help {key.path}"
            )


def _add_critic(config: RunConfig, registry: Registry) -> None:
    """Set `add_value_head`, if it is None, to whether the algorithm needs values."""
    if config.actor.model.add_value_head is None:
        try:
            needs = algorithm_needs(config, registry) if config.algorithm.name else None
        except UserError:
            needs = None  # the checks report this error, together with others
        config.actor.model.add_value_head = needs is not None and needs.values


def _share_checkpoint(config: RunConfig) -> None:
    """Copy paths that are set in `rollout.model` to `actor.model`.

    The acting policy and the trained policy start from the same weights, so one path serves both.

    Raises:
        ConfigError: both sections name checkpoints, these differ, and the run trains.
    """
    model = config.actor.model
    for name, acting in vars(config.rollout.model).items():
        trained = getattr(model, name)
        if acting is None or acting == trained:
            continue
        # a name that is still here was not found on this machine: the other path replaces it
        is_local = trained is not None and not hub.is_name(trained)
        if is_local and not config.runner.only_eval:
            raise ConfigError(
                f"rollout.model.{name} must equal actor.model.{name}: the policy that acts is "
                f"the one that is trained, got {acting!r} and {trained!r}",
                hint=f"leave rollout.model.{name} out, or give both",
            )
        setattr(model, name, acting)


def _make_paths_absolute(config: RunConfig) -> None:
    """Make paths absolute, from the current folder: a worker may run in a different one.

    Raises:
        ConfigError: an empty path, which would mean the current folder, or `~NAME` of an unknown
            user.
    """
    for key in schema_tree.walk(config):
        if key.place and key.value is not None:
            schema_tree.put(config, key.path, _put_absolute(key))


def _put_absolute(key: schema_tree.Key) -> str:
    if key.place == "checkpoint" and hub.is_name(key.value):
        folder = hub.find(key.value)
        if folder is None:  # the checks decide whether the run needs it
            return str(key.value)
        if folder != Path(key.value).absolute():
            warn(f"{key.value} is taken from {folder}")
        return str(folder)
    on_path = key.place == "program" and os.sep not in key.value and shutil.which(key.value)
    return _absolute(key.path, on_path or key.value)


def _relocate_paths(config: RunConfig, run: Path) -> None:
    """Rewrite paths into a run folder that was moved.

    A path that does not exist, but contains a folder with the name of `run`, is replaced by the
    same path below `run` if that exists.
    """
    for key in schema_tree.walk(config):
        if not key.place or key.value is None or Path(key.value).exists():
            continue
        parts = Path(key.value).parts
        inside = [run.joinpath(*parts[i + 1 :]) for i, name in enumerate(parts) if name == run.name]
        moved = next((place for place in inside if place.exists()), None)
        if moved is not None:
            schema_tree.put(config, key.path, str(moved))


def _absolute(path: str, value: str) -> str:
    if not value.strip():
        raise ConfigError(
            f"{path} must be a path, got {value!r}",
            hint=f"{path}=null names none; an empty variable in its place is to be unset",
        )
    try:
        return str(Path(value).expanduser().absolute())
    except RuntimeError as error:  # ~NAME of an unknown user
        raise ConfigError(f"{path} must be a path, got {value!r}: {error}") from None
