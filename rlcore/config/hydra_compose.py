"""Compose group choices and defaults lists into plain values, with Hydra's defaults lists.

    env/train/X, env/eval/X    the option's file, with the keys under `_train_` / `_eval_`
                               applied on that side only
    model/X                    the option's file, in the package actor.model
    algorithm/X                the option's file
    experiment/X, ...          the recipe, its defaults list in one form
                               (:mod:`rlcore.config.choices`)

A registered component without a file is an option too. Its only key is the component's name.

This module only collects values. :mod:`rlcore.config.bind` then checks against the dataclasses that
each key exists and that its value has the right type, also for values of the command line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from hydra import version
from hydra._internal.config_repository import ConfigRepository
from hydra._internal.defaults_list import create_defaults_list
from hydra.core.default_element import ResultDefault
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, MissingConfigException
from hydra.plugins.config_source import ConfigResult, ConfigSource
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rlcore.config.catalog import COMPONENT_GROUPS, SIDES, TYPE_KEYS, Catalog
from rlcore.config.choices import DEFAULTS, is_about_hydra, normalise_defaults
from rlcore.config.overrides import nest, quote
from rlcore.config.recipes import ROOT, package_of, read_scalars
from rlcore.config.schema.sources import FileValues, Layer, merged
from rlcore.contracts.errors import ConfigError
from rlcore.files.core_configs import PRIMARY, core_configs

HYDRA_VERSION_BASE = "1.3"
PACKAGES = {"model": "_global_.actor.model"}
_NOT_IN_LIST = re.compile(
    r"Could not override '([\w/]+)'.*No match in the defaults list", re.DOTALL
)


def compose_files(catalog: Catalog, group_overrides: Sequence[str]) -> FileValues:
    """Compose the root file with the chosen options.

    Args:
        group_overrides: `group=option` or `~group`, with a word for each side of env
            (:func:`rlcore.config.choices.choices_by_side`).

    Raises:
        ConfigError, PluginError: an option that does not exist, a file that can't be read, a
            defaults list that does not compose.
    """
    version.setbase(HYDRA_VERSION_BASE)
    repository = _Repository(catalog)
    try:
        composed = create_defaults_list(
            repository,
            PRIMARY,
            OverridesParser.create().parse_overrides([*map(_quoted, group_overrides)]),
            prepend_hydra=False,
            skip_missing=False,
        )
    except MissingConfigException as error:
        raise _missing(catalog, error) from None
    # Hydra raises built-in exceptions for many faults of a configuration.
    except (HydraException, OmegaConfBaseException, OSError, ValueError) as error:
        absent = _NOT_IN_LIST.search(str(error))
        raise ConfigError(
            f"the configuration does not compose: {_chain(error)}",
            hint=f"+{absent[1]}=NAME adds a group that no file has chosen from" if absent else None,
        ) from None
    choices = composed.overrides.known_choices
    layers = tuple(map(repository.layer, composed.defaults))
    values = merged(layer.values for layer in layers)
    values.pop("hydra", None)  # settings of a recipe for its sweeps
    return FileValues(
        values,
        {group: str(option) for group, option in choices.items() if option is not None},
        layers,
    )


class _Repository(ConfigRepository):
    """The options of a catalog, for Hydra's composition of defaults lists."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.load_config = cache(self._load)  # type: ignore[method-assign]  # a file is read once

    def group_exists(self, config_path: str) -> bool:
        return self._catalog.has_group(config_path)

    def config_exists(self, config_path: str) -> bool:
        return self.load_config(config_path) is not None

    def get_group_options(
        self, group_name: str, results_filter: ObjectType | None = ObjectType.CONFIG
    ) -> list[str]:
        return self._catalog.options(group_name)

    def get_sources(self) -> list[ConfigSource]:
        return []  # Hydra asks for them only for error messages

    def layer(self, default: ResultDefault) -> Layer:
        """Return the values of an option, below the package that Hydra chose for it."""
        config_path = str(default.config_path)
        package = default.package or ""
        loaded = self.load_config(config_path)
        assert loaded is not None  # Hydra has loaded it
        values: Any = loaded.config
        return Layer(
            *_split(config_path),
            file=Path(loaded.path) if loaded.path else None,
            package=package,
            values=nest(package, values) if package else values,
        )

    def _load(self, config_path: str) -> ConfigResult | None:
        group, name = _split(config_path)
        top = group.split("/")[0]
        file = self._catalog.file(group, name) if group else core_configs() / f"{PRIMARY}.yaml"
        if file is None and (top not in COMPONENT_GROUPS or name not in self._catalog.options(top)):
            return None
        values: Any = {} if file is None else read_scalars(file)
        package = PACKAGES.get(group)
        if top in COMPONENT_GROUPS:
            values = _of_component(file, group, name, values)
        elif file is not None:
            package = package_of(file) or (None if values else ROOT)
        entries = normalise_defaults(file, group, values.pop(DEFAULTS, []))
        defaults = OmegaConf.create([entry for entry in entries if not is_about_hydra(entry)])
        return ConfigResult(
            provider="rlcore",
            path=str(file or ""),
            config=values,  # no DictConfig, which would not preserve the text of numbers
            header={"package": package},
            defaults_list=self._create_defaults_list(config_path, defaults),
        )


def _split(config_path: str) -> tuple[str, str]:
    group, _, name = config_path.removesuffix(".yaml").rpartition("/")
    return group, name


def _of_component(
    file: Path | None, group: str, name: str, values: dict[str, Any]
) -> dict[str, Any]:
    """Return the keys that an option sets in its section.

    For one side of env, keys under `_train_` or `_eval_` of that side override the others.

    Raises:
        ConfigError: a single value under `_train_` or `_eval_`.
    """
    top, _, side = group.partition("/")
    own: dict[str, Any] = {}
    for other in SIDES if top == "env" else ():
        keys = values.pop(f"_{other}_", None) or {}
        if not isinstance(keys, dict):
            raise ConfigError(f"{file}: _{other}_ must hold keys of env.{other}, got {keys!r}")
        own = keys if other == side else own
    if TYPE_KEYS[top] not in values and DEFAULTS not in values:
        values[TYPE_KEYS[top]] = name
    return merged([values, own])


def _quoted(word: str) -> str:
    """Quote the option of a choice, so that one that looks like a number remains a string."""
    group, sign, option = word.partition("=")
    return f"{group}={quote(option)}" if sign and option != "null" else word


def _missing(catalog: Catalog, error: MissingConfigException) -> Exception:
    """Return the error for a file that Hydra did not find, usually an option of a group."""
    if error.missing_cfg_file is None:
        return ConfigError(f"the configuration does not compose: {_chain(error)}")
    group, _, name = error.missing_cfg_file.removesuffix(".yaml").rpartition("/")
    if catalog.has_group(group):
        return catalog.unknown_option(group, name)
    return ConfigError(
        f"the configuration asks for the file {error.missing_cfg_file!r}, which does not exist"
    )


def _chain(error: BaseException) -> str:
    """Join the messages of an error and its causes, each once, by colons."""
    texts: list[str] = []
    cause: BaseException | None = error
    while cause is not None:
        # Hydra's advice to append a key with `+` is dropped: the key is most likely misspelled.
        lines = [line.split("To append to your")[0].strip() for line in str(cause).splitlines()]
        text = " ".join(line for line in lines if line)
        if text and text not in texts:
            texts.append(text)
        cause = cause.__cause__
    return ": ".join(texts) or type(error).__name__
