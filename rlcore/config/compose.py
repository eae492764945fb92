"""Compose the frozen :class:`RunConfig` from the overrides of a command line.

["env=X", "runner.seed=1"] --parse--> group choices --Hydra--> values of the files
                             values of the command line ----------> | bind --> RunConfig
"""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import asdict, replace
from pathlib import Path

from hydra.core.override_parser.types import Override
from omegaconf import OmegaConf

from rlcore.config import instructions, schema_tree
from rlcore.config.bind import bind, merge, schema_for
from rlcore.config.catalog import BY_RECIPE, COMPONENT_GROUPS, EXPERIMENT, Catalog
from rlcore.config.choices import choices_by_side, with_missing_side
from rlcore.config.component_specs import algorithm_needs
from rlcore.config.hydra_compose import compose_files
from rlcore.config.overrides import keys_of, nest, parse_overrides, split
from rlcore.config.recipes import check_recipes, read_scalars
from rlcore.config.scalars import resolve_scalars
from rlcore.config.schema import RecipeConfig, RunConfig
from rlcore.config.schema.env import OWN_INSTRUCTIONS
from rlcore.config.schema.sources import MISSING, FileValues, Sources
from rlcore.config.swap_component import fit_recipe
from rlcore.config.translation import Values, take, translate_keys
from rlcore.config.trusted_keys import composable_recipe, require_trusted_keys, require_values
from rlcore.config.warning import ConfigWarning, warn
from rlcore.contracts.errors import (
    ConfigError,
    UserError,
    collect_errors,
    format_choices,
    join_errors,
)
from rlcore.files import hub
from rlcore.plugins.registry import Registry, load_plugins

ALL_COMPONENTS = tuple(COMPONENT_GROUPS)


class MissingValueError(ConfigError):
    """Raised for a required key that has no value."""


class IncompleteRecipeError(ConfigError):
    """Raised for a configuration with faults that leave the rest of it usable.

    Attributes:
        several: one error for each fault.
        draft: the frozen configuration, with defaults in place of the values at fault.
    """

    def __init__(self, errors: Sequence[UserError], draft: RunConfig) -> None:
        joint = join_errors(errors)
        super().__init__(joint.message, hint=joint.hint)
        self.errors = tuple(errors)
        self.draft = draft


def compose(
    overrides: Sequence[str] = (),
    *,
    config_dirs: Sequence[str | Path] = (),
    require: Sequence[str] = ALL_COMPONENTS,
    registry: Registry | None = None,
    draft: bool = False,
) -> RunConfig:
    """Compose the configuration of a run.

    Args:
        overrides: as on the command line: `env=NAME`, `env/train=NAME`, `env/eval=NAME`,
            `model=NAME`, `algorithm=NAME`, `experiment=NAME`, `section.key=value`. Later ones
            win, but `env/train` and `env/eval` win over `env` in any order. If only one side of
            env is chosen, the other side gets the same env.
        config_dirs: further folders with groups, searched first.
        require: groups of which a component must be chosen.
        registry: the plugins; None: the installed ones.
        draft: return the draft of an :class:`IncompleteRecipeError` instead of raising it.

    Returns:
        Frozen dataclasses; sections of components are instances of the plugins' classes.

    Raises:
        IncompleteRecipeError: required keys without a value, or instructions that can't be read.
        ConfigError: an unknown key or option, a wrong type, a component that is not chosen.
        PluginError: a component that is not installed, is broken, or is claimed twice.
    """
    registry = registry or load_plugins()
    catalog = Catalog(registry, config_dirs)
    groups, values = split(catalog, parse_overrides(overrides))
    sources = _compose_sources(catalog, groups)
    origin = RecipeConfig(groups, [str(Path(folder).absolute()) for folder in config_dirs])
    try:
        config = _bind_layers(sources.files.values, values, registry, origin, sources)
    except IncompleteRecipeError as error:
        _require(error.draft, require, catalog)
        if not draft:
            raise
        return error.draft
    _require(config, require, catalog)
    return config


def _compose_sources(catalog: Catalog, groups: Sequence[str]) -> Sources:
    """Compose the files of group choices, each file once."""
    words = choices_by_side(groups)
    check_recipes(catalog, words)
    files = _with_both_sides(catalog, words, compose_files(catalog, words))
    recipes = [word for word in words if word.startswith(BY_RECIPE)]
    if len(recipes) in (0, len(words)):
        return Sources(files, files)
    recipe = compose_files(catalog, recipes)
    fit_recipe(catalog.registry, recipes[-1], files, recipe)
    return Sources(files, _with_both_sides(catalog, recipes, recipe))


def _with_both_sides(catalog: Catalog, words: Sequence[str], files: FileValues) -> FileValues:
    """Compose the files again with the other side's env, if only one side of env is chosen."""
    both = with_missing_side(words, files.choices)
    return files if both == words else compose_files(catalog, both)


def load(
    path: str | Path,
    overrides: Sequence[str] = (),
    registry: Registry | None = None,
    *,
    require: Sequence[str] = (),
    trust: bool = False,
) -> RunConfig:
    """Load the configuration that an earlier run wrote (`<run>/config.yaml`), with changes.

    Args:
        path: the file.
        overrides: `section.key=value`; components can't be exchanged.
        registry: the plugins; None: the installed ones.
        require: groups of which the file must name a component.
        trust: whether the file may set keys that load code, see
            :mod:`rlcore.config.trusted_keys`.

    Raises:
        ConfigError: the file is missing or damaged, does not fit the installed plugins, or sets a
            key that loads code although `trust` is False.
    """
    registry = registry or load_plugins()
    catalog = Catalog(registry)
    parsed = parse_overrides(overrides)
    layers = _key_layers(catalog, parsed)
    saved = read_scalars(Path(path))
    overridden = [path for override in parsed for path in keys_of(override)]
    require_values(Path(path), saved, overridden)
    try:
        folder = Path(path).absolute().parent
        config = _bind_layers(deepcopy(saved), layers, registry, run=folder)
        _require(config, require, catalog)
    except ConfigError as error:
        _check_file_alone(path, saved, require, catalog)
        # an IncompleteRecipeError would hand out a draft that require_trusted_keys has not checked
        raise ConfigError(error.message, hint=error.hint) from None
    if not trust:
        require_trusted_keys(Path(path), config, overridden)
    config = replace(config, recipe=composable_recipe(config.recipe, catalog.groups))
    config.freeze()
    return config


def _key_layers(catalog: Catalog, overrides: Sequence[Override]) -> list[Values]:
    """Return the values of `section.key=value`.

    Raises:
        ConfigError: a choice of a component.
    """
    groups, values = split(catalog, overrides)
    if groups:
        raise ConfigError(
            f"{groups[0]}: the components of a composed configuration can't be exchanged"
        )
    return values


def changed(
    config: RunConfig,
    overrides: Sequence[str],
    registry: Registry | None = None,
    *,
    require: Sequence[str] = (),
) -> RunConfig:
    """Return a configuration with some of its keys changed, after the checks of :func:`compose`.

    Args:
        overrides: `section.key=value`; components can't be exchanged.
        registry: the plugins; None: the installed ones.
        require: groups of which the configuration must name a component.

    Raises:
        ConfigError: an unknown key, a value of a wrong type, or a change of a component.
    """
    registry = registry or load_plugins()
    catalog = Catalog(registry)
    layers = _key_layers(catalog, parse_overrides(overrides))
    result = _bind_layers(asdict(config), layers, registry, sources=config.recipe.sources)
    _require(result, require, catalog)
    return result


def recipe_of(config: RunConfig, registry: Registry | None = None) -> RunConfig | None:
    """Return what a run was started from, without the `section.key=value` of its command line.

    That is the recipe `experiment=NAME` alone or, without a recipe, the chosen components. Keys
    that the files require to be set (`???`) have their values from `config`.

    Returns:
        The configuration; None if `config.recipe` names no choices, so `config` was not composed.

    Raises:
        ConfigError, PluginError: the recipe does not compose here.
    """
    choices = config.recipe.choices
    if not choices:
        return None
    registry = registry or load_plugins()
    recipes = [choice for choice in choices if choice.startswith(BY_RECIPE)]
    with warnings.catch_warnings():
        # the run has already warned, and warnings about the recipe alone may not hold for it
        warnings.simplefilter("ignore", ConfigWarning)
        sources = sources_of(config, registry)
        values = sources.recipe.values
        left_open = [path for path, value in schema_tree.leaves(values) if value == MISSING]
        layers = [nest(path, schema_tree.value_of(config, path)) for path in left_open]
        origin = RecipeConfig(recipes or choices, config.recipe.config_dirs)
        return _bind_layers(values, layers, registry, origin, sources)


def sources_of(config: RunConfig, registry: Registry | None = None) -> Sources:
    """Return the files that a configuration was composed from.

    They are composed again for a configuration that was loaded.

    Raises:
        ConfigError, PluginError: the choices do not compose here.
    """
    recipe = config.recipe
    return recipe.sources or _compose_sources(
        Catalog(registry or load_plugins(), recipe.config_dirs), recipe.choices
    )


def _check_file_alone(
    path: str | Path, saved: Values, require: Sequence[str], catalog: Catalog
) -> None:
    """Check the saved values without the overrides; an error then gets the name of the file.

    Raises:
        ConfigError: the file itself is at fault.
    """
    try:
        _require(_bind_layers(saved, (), catalog.registry), require, catalog)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error.message}", hint=error.hint) from None


def to_yaml(config: RunConfig) -> str:
    """Return the resolved configuration as YAML text, which :func:`load` reads from a file."""
    return OmegaConf.to_yaml(OmegaConf.create(asdict(config)))


def yaml_below(text: str, path: str | None) -> str:
    """Return the part of a YAML text at or below a key; all of it if `path` is empty or None.

    Raises:
        ConfigError: there is no such key.
    """
    if not path:
        return text
    missing = object()
    part = OmegaConf.select(OmegaConf.create(text), path, default=missing)
    if part is missing:
        raise ConfigError(f"--package: there is no key {path!r}", hint="rlcore train --help")
    return OmegaConf.to_yaml(part) if OmegaConf.is_config(part) else f"{part}\n"


def _bind_layers(
    file_values: Values,
    layers: Sequence[Values],
    registry: Registry,
    origin: RecipeConfig | None = None,
    sources: Sources | None = None,
    run: Path | None = None,
) -> RunConfig:
    """Merge the values of the files and then each layer, and bind the result to the schema.

    Args:
        file_values: values of the files, unresolved.
        layers: values of the command line; later layers win.
        origin: what the run is composed from; None for a configuration that was composed before.
        sources: the files that it is composed from; None for a configuration that was saved.
        run: the folder of the run that saved the values; None for values that are composed.

    Returns:
        The frozen configuration.

    Raises:
        IncompleteRecipeError: required keys without a value, or instructions that can't be read.
        ConfigError: an unknown key, a wrong type, or a path that can't be made absolute.
    """
    raw = [file_values, *layers]
    plugin_values = file_values.get("plugins", {}) if run else {}
    for name in [name for name in plugin_values if name not in registry.settings]:
        warn(f"plugins.{name} is left out: no such plugin is loaded")
        del plugin_values[name]
    root = schema_for(registry, raw)
    raw = [resolve_scalars(layer, root) for layer in raw]
    translate_keys(raw, registry, root)
    if origin is not None:
        root.recipe = origin
    if sources and EXPERIMENT in sources.files.choices:  # runs of a recipe are named after it
        root.runner.logger.experiment_name = sources.files.choices[EXPERIMENT]
    values: Values = {}
    for layer in raw:
        merge(values, layer, root)
    errors: list[UserError] = [*_missing_values(values, root)]
    config = bind(values, root)
    config.recipe.sources = sources
    _add_critic(config, registry)
    _make_paths_absolute(config)
    if run is not None:
        _relocate_paths(config, run)
    _share_checkpoint(config)
    for side, env in config.env.sides.items():
        value = env.sentences
        env.sentences = OWN_INSTRUCTIONS  # of the draft, if the value is invalid
        with collect_errors(errors):
            env.sentences = instructions.resolve(
                value, f"env.{side}.sentences", env.env_type, config.actor.model.model_path
            )
        if env.env_type in registry.names("env"):
            env.resolve(registry.get("env", env.env_type).spec)
    config.freeze()
    if errors:
        raise IncompleteRecipeError(errors, config)
    return config


def _missing_values(values: Values, root: RunConfig) -> Iterator[ConfigError]:
    """Yield an error for each required key without a value, and remove its `???` from `values`."""
    for key in schema_tree.walk(root):
        if schema_tree.find(values, key.path) == MISSING:
            take(values, key.path)
            help_text = f": {key.help}" if key.help else ""
            yield MissingValueError(
                f"{key.path} must be given{help_text}", hint=f"rlcore train --help {key.path}"
            )


def _require(config: RunConfig, groups: Sequence[str], catalog: Catalog) -> None:
    for group in groups:
        if not chosen(config, group):
            raise ConfigError(
                f"no {group} is chosen: {group}=NAME, or experiment=NAME; "
                f"choose from: {format_choices(catalog.options(group)) or 'none is installed'}",
                hint="rlcore plugins",
            )


def chosen(config: RunConfig, group: str) -> bool:
    """Check whether `config` names a component of a group; env needs one on both sides.

    No algorithm is needed with `runner.only_eval`.
    """
    names = {
        "env": config.env.train.env_type and config.env.eval.env_type,
        "model": config.actor.model.model_type,
        "algorithm": config.algorithm.name or config.runner.only_eval,
    }
    return bool(names[group])


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
