"""Compose the frozen :class:`RunConfig` from the overrides of a command line.

["env=X", "runner.seed=1"] --parse--> group choices --Hydra--> values of the files
                             values of the command line ----------> | bind --> RunConfig
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from copy import deepcopy
from dataclasses import asdict, replace
from pathlib import Path

from hydra.core.override_parser.types import Override
from omegaconf import OmegaConf

from rlcore.config import schema_tree
from rlcore.config.catalog import BY_RECIPE, COMPONENT_GROUPS, EXPERIMENT, Catalog
from rlcore.config.choices import choices_by_side, with_missing_side
from rlcore.config.hydra_compose import compose_files
from rlcore.config.layers import IncompleteRecipeError, bind_layers
from rlcore.config.overrides import keys_of, nest, parse_overrides, split
from rlcore.config.recipes import check_recipes, parse_scalars, read_scalars
from rlcore.config.run_name import run_name
from rlcore.config.schema import RecipeConfig, RunConfig
from rlcore.config.schema.sources import MISSING, FileValues, Sources
from rlcore.config.swap_component import fit_recipe
from rlcore.config.translation import Values
from rlcore.config.trusted_keys import composable_recipe, require_trusted_keys, require_values
from rlcore.config.warning import ConfigWarning
from rlcore.contracts.errors import ConfigError, format_choices
from rlcore.plugins.registry import Registry, load_plugins

ALL_COMPONENTS = tuple(COMPONENT_GROUPS)


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
        config = bind_layers(sources.files.values, values, registry, origin, sources)
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
    catalog = Catalog(registry or load_plugins())
    file = Path(path)
    return _load_values(
        read_scalars(file),
        catalog,
        overrides,
        source=file,
        run=file.absolute().parent,
        require=require,
        trust=trust,
    )


def from_yaml(text: str, source: Path, *, trust: bool = False) -> RunConfig:
    """Return the configuration that :func:`to_yaml` wrote as text.

    Args:
        source: where the text is from, for error messages.
        trust: whether it may set keys that load code, as for :func:`load`.

    Raises:
        ConfigError: as for :func:`load`.
    """
    saved = parse_scalars(text, source)
    return _load_values(saved, Catalog(load_plugins()), source=source, trust=trust)


def _load_values(
    saved: Values,
    catalog: Catalog,
    overrides: Sequence[str] = (),
    *,
    source: Path,
    run: Path | None = None,
    require: Sequence[str] = (),
    trust: bool,
) -> RunConfig:
    """Bind the values of a configuration that was composed before; see :func:`load`.

    Args:
        source: where the values are from, for error messages.
        run: the folder of the run that saved them; None for a configuration of this process.
    """
    parsed = parse_overrides(overrides)
    layers = _key_layers(catalog, parsed)
    overridden = [path for override in parsed for path in keys_of(override)]
    require_values(source, saved, overridden)

    def require_trust(config: RunConfig) -> None:
        if not trust:
            require_trusted_keys(source, config, overridden)

    try:
        config = bind_layers(
            deepcopy(saved), layers, catalog.registry, run=run, require_trust=require_trust
        )
        _require(config, require, catalog)
    except ConfigError as error:
        _check_file_alone(source, saved, require, catalog)
        # an IncompleteRecipeError would hand out a draft that require_trusted_keys has not checked
        raise ConfigError(error.message, hint=error.hint) from None
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
    result = bind_layers(asdict(config), layers, registry, sources=config.recipe.sources)
    _require(result, require, catalog)
    return result


def recipe_of(config: RunConfig, registry: Registry | None = None) -> RunConfig | None:
    """Return what a run was started from, without the `section.key=value` of its command line.

    That is the recipe `experiment=NAME` alone or, without a recipe, the chosen components. Keys
    that the files require to be set (`???`) have their values from `config`, and so have keys of
    components that load code of this machine.

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
        taken = [*left_open, *_chosen_on_this_machine(config, values)]
        layers = [nest(path, schema_tree.value_of(config, path)) for path in taken]
        origin = RecipeConfig(recipes or choices, config.recipe.config_dirs)
        return bind_layers(values, layers, registry, origin, sources)


def _chosen_on_this_machine(config: RunConfig, values: Values) -> list[str]:
    """Return the keys of components that load code and that the values of a recipe leave null.

    If they were chosen anew, an env would be measured with code that the run does not use, and that
    nobody has allowed: a module in the current folder may be called like that of the run.
    """
    same = [
        f"env.{side}."
        for side, env in config.env.sides.items()
        if schema_tree.find(values, f"env.{side}.env_type") == env.env_type
    ]
    if schema_tree.find(values, "actor.model.model_type") == config.actor.model.model_type:
        same.append("actor.model.")
    return [
        key.path
        for key in schema_tree.walk(config)
        if key.path.startswith(tuple(same)) and key.trusted and key.trusted.allowed
        if key.value is not None and schema_tree.find(values, key.path) is None
    ]


def shared_name(config: RunConfig, groups: Collection[str]) -> str | None:
    """Return the name of runs that differ from `config` in what they choose from some groups.

    Args:
        groups: names of groups without a side, e.g. `{"model"}`.

    Returns:
        The name that a file of a shared choice sets, or else that of the shared choices
        (:func:`rlcore.config.run_name.run_name`); None if they share no recipe and no component.

    Raises:
        ConfigError, PluginError: the choices of `config` do not compose here.
    """
    if EXPERIMENT in groups:
        return None
    options = sources_of(config).files.choices
    name = config.runner.logger.experiment_name
    if name != run_name(options):
        return name
    shared = {
        group: option for group, option in options.items() if group.split("/")[0] not in groups
    }
    return run_name(shared)


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
        _require(bind_layers(saved, (), catalog.registry), require, catalog)
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


def _require(config: RunConfig, groups: Sequence[str], catalog: Catalog) -> None:
    for group in groups:
        if not chosen(config, group):
            raise not_chosen(group, catalog)


def not_chosen(group: str, catalog: Catalog) -> ConfigError:
    """Return the error about a group of which no component is chosen."""
    hint = "rlcore plugins"
    if group == "algorithm":
        hint += "; rlcore sft and rlcore collect need none"
    return ConfigError(
        f"no {group} is chosen: {group}=NAME, or experiment=NAME; "
        f"choose from: {format_choices(catalog.options(group)) or 'none is installed'}",
        hint=hint,
    )


def chosen(config: RunConfig, group: str) -> bool:
    """Check whether `config` names a component of a group; env needs one on both sides.

    No algorithm is needed for evaluation or supervised training alone.
    """
    names = {
        "env": config.env.train.env_type and config.env.eval.env_type,
        "model": config.actor.model.model_type,
        "algorithm": config.algorithm.name or config.runner.only_eval or config.supervised_only,
    }
    return bool(names[group])
