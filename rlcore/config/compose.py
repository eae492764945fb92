"""Compose the frozen :class:`RunConfig` from the user's words.

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

from omegaconf import OmegaConf

from rlcore.config import instructions, schema_tree
from rlcore.config.bind import MISSING, bind, merge, schema_for
from rlcore.config.catalog import COMPONENT_GROUPS, EXPERIMENT, Catalog
from rlcore.config.choices import by_side, completed
from rlcore.config.component_specs import algorithm_needs
from rlcore.config.hydra_compose import FileValues, compose_files
from rlcore.config.old_names import ConfigWarning, Values, modernise, take, warn
from rlcore.config.overrides import keys_of, nest, parse, split
from rlcore.config.recipes import check_recipes, read_marked
from rlcore.config.scalars import settle, unmarked
from rlcore.config.schema import RecipeConfig, RunConfig
from rlcore.config.schema.env import OWN
from rlcore.config.swap_component import fit_recipe
from rlcore.config.trusted_keys import own_recipe, require_closed_doors, require_values
from rlcore.contracts.errors import ConfigError, UserError, collecting, joined, listing
from rlcore.files import hub
from rlcore.plugins.registry import Registry, load_plugins

ALL_COMPONENTS = tuple(COMPONENT_GROUPS)


class MissingValueError(ConfigError):
    """A key that must be given."""


class IncompleteRecipeError(ConfigError):
    """A configuration whose rest can be looked at nevertheless.

    Attributes:
        draft: the configuration, with the defaults of the keys at fault.
    """

    def __init__(self, errors: Sequence[UserError], draft: RunConfig) -> None:
        one = joined(errors)
        super().__init__(one.message, hint=one.hint)
        self.several, self.draft = tuple(errors), draft


def compose(
    overrides: Sequence[str] = (),
    *,
    config_dirs: Sequence[str | Path] = (),
    require: Sequence[str] = ALL_COMPONENTS,
    registry: Registry | None = None,
    draft: bool = False,
) -> RunConfig:
    """The configuration of a run.

    Args:
        overrides: as on the command line: `env=NAME`, `env/train=NAME`, `env/eval=NAME`,
            `model=NAME`, `algorithm=NAME`, `experiment=NAME`, `section.key=value`; later ones win,
            and one side of env over both. A side that nothing chooses gets the other one's env.
        config_dirs: further folders with groups, searched first.
        require: groups that a run needs.
        registry: the plugins; None for those installed.
        draft: whether keys that must be given may be left at their defaults.

    Returns:
        Frozen dataclasses; sections of components are instances of the plugins' classes.

    Raises:
        Unfinished: keys that must be given, and sentences that can't be read.
        ConfigError: an unknown key or option, a wrong type, a component that is not chosen.
        PluginError: a component that is not installed, is broken, or is claimed twice.
    """
    registry = registry or load_plugins()
    catalog = Catalog(registry, config_dirs)
    groups, values = split(catalog, parse(overrides))
    files = _files(catalog, groups)
    try:
        config = _finish(files, values, registry, _origin(groups, config_dirs))
    except IncompleteRecipeError as error:
        _require(error.draft, require, catalog)
        if not draft:
            raise
        return error.draft
    _require(config, require, catalog)
    return config


def _files(catalog: Catalog, groups: Sequence[str]) -> FileValues:
    named = by_side(groups)
    check_recipes(catalog, named)
    files = compose_files(catalog, named)
    all_sides = completed(named, files.choices)
    if all_sides != named:
        files = compose_files(catalog, all_sides)
    return fit_recipe(catalog, all_sides, files)


def _origin(groups: Sequence[str], config_dirs: Sequence[str | Path]) -> RecipeConfig:
    return RecipeConfig(list(groups), [str(Path(folder).absolute()) for folder in config_dirs])


def load(
    path: str | Path,
    overrides: Sequence[str] = (),
    registry: Registry | None = None,
    *,
    require: Sequence[str] = (),
    trust: bool = False,
) -> RunConfig:
    """The configuration written by an earlier run (`<run>/config.yaml`), with changes.

    Args:
        path: the file.
        overrides: `section.key=value`.
        registry: the plugins; None for those installed.
        require: groups of which the file must name a component.
        trust: whether the file may let code in, see :mod:`rlcore.config.trusted_keys`.

    Raises:
        ConfigError: the file is missing or damaged, does not fit the installed plugins, or lets
            code in.
    """
    registry = registry or load_plugins()
    catalog = Catalog(registry)
    parsed = parse(overrides)
    groups, values = split(catalog, parsed)
    if groups:
        raise ConfigError(
            f"{groups[0]}: the components of a composed configuration can't be exchanged"
        )
    saved: Values = unmarked(read_marked(Path(path)))
    given = [path for override in parsed for path in keys_of(override)]
    require_values(Path(path), saved, given)
    try:
        folder = Path(path).absolute().parent
        config = _finish(FileValues(deepcopy(saved), {}), values, registry, run=folder)
        _require(config, require, catalog)
    except ConfigError as error:
        _blame(path, saved, require, catalog)
        # without a draft: nobody has looked at what it may let in
        raise ConfigError(error.message, hint=error.hint) from None
    if not trust:
        require_closed_doors(Path(path), config, given)
    config = replace(config, recipe=own_recipe(config.recipe, catalog.groups))
    config.freeze()
    return config


def recipe_of(config: RunConfig, registry: Registry | None = None) -> RunConfig | None:
    """What the recipe alone gives, without the changes of the command line: the values of
    `experiment=NAME`, or without one those of the chosen components. What the recipe left
    to whoever ran it is as they set it. None for a configuration that was not composed.

    Raises:
        ConfigError, PluginError: the recipe does not compose here.
    """
    choices = config.recipe.choices
    experiments = [choice for choice in choices if choice.startswith("experiment=")]
    if not choices:
        return None
    folders, groups = config.recipe.config_dirs, experiments or choices
    registry = registry or load_plugins()
    with warnings.catch_warnings():
        # the run has said what it takes; of the recipe alone that may be something else
        warnings.simplefilter("ignore", ConfigWarning)
        files = _files(Catalog(registry, folders), groups)
        left_open = [path for path, value in schema_tree.leaves(files.values) if value == MISSING]
        given = [nest(path, schema_tree.value_of(config, path)) for path in left_open]
        return _finish(files, given, registry, _origin(groups, folders))


def _blame(path: str | Path, saved: Values, require: Sequence[str], catalog: Catalog) -> None:
    """Raise with the file's name if it is at fault without any change."""
    try:
        _require(_finish(FileValues(saved, {}), (), catalog.registry), require, catalog)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error.message}", hint=error.hint) from None


def to_yaml(config: RunConfig) -> str:
    """The resolved configuration as text; :func:`load` reads it back."""
    return OmegaConf.to_yaml(OmegaConf.create(asdict(config)))


def yaml_below(text: str, path: str | None) -> str:
    """Of a configuration as text, what is below a key; all of it where none is named.

    Raises:
        ConfigError: there is no such key.
    """
    if not path:
        return text
    missing = object()
    found = OmegaConf.select(OmegaConf.create(text), path, default=missing)
    if found is missing:
        raise ConfigError(f"--package: there is no key {path!r}", hint="rlcore train --help")
    return OmegaConf.to_yaml(found) if OmegaConf.is_config(found) else f"{found}\n"


def _finish(
    files: FileValues,
    layers: Sequence[Values],
    registry: Registry,
    origin: RecipeConfig | None = None,
    run: Path | None = None,
) -> RunConfig:
    """Values of files and command line, in this order, bound to the schema. `run` is the folder
    that the values were kept in, if they were."""
    raw = [files.values, *layers]
    kept = files.values.get("plugins", {}) if run else {}
    for name in [name for name in kept if name not in registry.settings]:
        warn(f"plugins.{name} is left out: no such plugin is loaded")
        del kept[name]
    root = schema_for(registry, raw)
    raw = [settle(layer, root) for layer in raw]
    modernise(raw, registry, root)
    if origin is not None:
        root.recipe = origin
    if EXPERIMENT in files.choices:  # a recipe's runs go under its name
        root.runner.logger.experiment_name = files.choices[EXPERIMENT]
    values: Values = {}
    for layer in raw:
        merge(values, layer, root)
    errors: list[UserError] = [*_ungiven(values, root)]
    config = bind(values, root)
    _add_critic(config, registry)
    _make_paths_absolute(config)
    if run is not None:
        _follow(config, run)
    _share_checkpoint(config)
    for side, env in config.env.sides.items():
        given, env.sentences = env.sentences, OWN
        with collecting(errors):
            key, checkpoint = f"env.{side}.sentences", config.actor.model.model_path
            env.sentences = instructions.resolve(given, key, env.env_type, checkpoint)
        if env.env_type in registry.names("env"):
            env.settle(registry.get("env", env.env_type).spec)
    config.freeze()
    if errors:
        raise IncompleteRecipeError(errors, config)
    return config


def _ungiven(values: Values, root: RunConfig) -> Iterator[ConfigError]:
    """An error for each key that must be given and is not, which leaves the values."""
    for key in schema_tree.walk(root):
        if schema_tree.find(values, key.path) == MISSING:
            take(values, key.path)
            said = f": {key.help}" if key.help else ""
            yield MissingValueError(
                f"{key.path} must be given{said}", hint=f"rlcore train --help {key.path}"
            )


def _require(config: RunConfig, groups: Sequence[str], catalog: Catalog) -> None:
    for group in groups:
        if not chosen(config, group):
            raise ConfigError(
                f"no {group} is chosen: {group}=NAME, or experiment=NAME; "
                f"choose from: {listing(catalog.options(group)) or 'none is installed'}",
                hint="rlcore plugins",
            )


def chosen(config: RunConfig, group: str) -> bool:
    """Whether it names a component of that group, or needs none."""
    names = {
        "env": config.env.train.env_type and config.env.eval.env_type,
        "model": config.actor.model.model_type,
        "algorithm": config.algorithm.name or config.runner.only_eval,  # it trains nothing
    }
    return bool(names[group])


def _add_critic(config: RunConfig, registry: Registry) -> None:
    """A model has a critic if the algorithm needs values, unless it was set."""
    if config.actor.model.add_value_head is None:
        try:
            needs = algorithm_needs(config, registry) if config.algorithm.name else None
        except UserError:
            needs = None  # the checks say what is wrong, and with what else
        config.actor.model.add_value_head = needs is not None and needs.values


def _share_checkpoint(config: RunConfig) -> None:
    """The acting policy and the trained one start from the same weights: one path serves both.

    Raises:
        ConfigError: two different checkpoints are asked for, and training is meant.
    """
    model = config.actor.model
    for name, acting in vars(config.rollout.model).items():
        trained = getattr(model, name)
        if acting is None or acting == trained:
            continue
        here = trained is not None and not hub.is_name(trained)  # a name: of the recipe, not found
        if here and not config.runner.only_eval:
            raise ConfigError(
                f"rollout.model.{name} must equal actor.model.{name}: the policy that acts is "
                f"the one that is trained, got {acting!r} and {trained!r}",
                hint=f"leave rollout.model.{name} out, or give both",
            )
        setattr(model, name, acting)


def _make_paths_absolute(config: RunConfig) -> None:
    """Paths are meant from where the user stands; a worker's folder may be another one.

    Raises:
        ConfigError: an empty path, which would be the folder the user stands in; a home of nobody.
    """
    for key in schema_tree.walk(config):
        if key.place and key.value is not None:
            schema_tree.put(config, key.path, _put_absolute(key))


def _put_absolute(key: schema_tree.Key) -> str:
    if key.place == "checkpoint" and hub.is_name(key.value):
        found = hub.find(key.value)
        if found is None:  # whether that matters is for the checks to say
            return str(key.value)
        if found != Path(key.value).absolute():
            warn(f"{key.value} is taken from {found}")
        return str(found)
    on_path = key.place == "program" and os.sep not in key.value and shutil.which(key.value)
    return _absolute(key.path, on_path or key.value)


def _follow(config: RunConfig, run: Path) -> None:
    """Paths into a run that was moved, found by its name, lead to where they lead now."""
    for key in schema_tree.walk(config):
        if not key.place or key.value is None or Path(key.value).exists():
            continue
        parts = Path(key.value).parts
        inside = [run.joinpath(*parts[i + 1 :]) for i, name in enumerate(parts) if name == run.name]
        here = next((place for place in inside if place.exists()), None)
        if here is not None:
            schema_tree.put(config, key.path, str(here))


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
