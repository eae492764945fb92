"""Provide the Hydra config source for all groups of the catalog.

    env/train/X, env/eval/X    the option's file, with the keys under `_train_` / `_eval_`
                               applied on that side only
    model/X                the option's file, in the package actor.model
    algorithm/X            the option's file
    experiment/X, ...      the recipe, its defaults list in one form (:mod:`rlcore.config.choices`)

A registered component without a file is an option too. Its only key is the component's name.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigLoadError, ConfigResult, ConfigSource
from omegaconf import DictConfig, OmegaConf

from rlcore.config.catalog import COMPONENT_GROUPS, SIDES, TYPE_KEYS, Catalog
from rlcore.config.choices import DEFAULTS, canonical
from rlcore.config.recipes import ROOT, package_of, read_marked

SCHEME = "rlcore"
PACKAGES = {"model": "_global_.actor.model"}
catalog: ContextVar[Catalog] = ContextVar("catalog")
"""The catalog to serve. It can't be an argument, as Hydra creates a source from its URL alone."""


class ComponentSource(ConfigSource):
    """Hydra config source that serves all groups of :data:`catalog`."""

    @staticmethod
    def scheme() -> str:
        return SCHEME

    def available(self) -> bool:
        return True

    def is_group(self, config_path: str) -> bool:
        return config_path.rstrip("/") in {"", *catalog.get().groups}

    def is_config(self, config_path: str) -> bool:
        group, name = _split(config_path)
        return group != "" and self.is_group(group) and name in catalog.get().options(group)

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        path = config_path.rstrip("/")  # Hydra lists a group for its error messages
        return catalog.get().options(path) if path and self.is_group(path) else []

    def load_config(self, config_path: str) -> ConfigResult:
        group, name = _split(config_path)
        if not self.is_config(config_path):
            raise ConfigLoadError(f"no option {config_path}")
        is_component = group.split("/")[0] in COMPONENT_GROUPS
        config, package = (_component if is_component else _recipe)(group, name)
        return ConfigResult(
            provider=self.provider,
            path=self.full_path(),
            config=config,
            header={"package": package},
        )


def _split(config_path: str) -> tuple[str, str]:
    group, _, name = config_path.removesuffix(".yaml").rpartition("/")
    return group, name


Content = tuple[DictConfig, str | None]
"""(keys of an option, package where they start); a package of None: below the option's group."""


def _recipe(group: str, name: str) -> Content:
    file = catalog.get().file(group, name)
    assert file is not None  # outside components, every option is a file
    content = read_marked(file)
    if DEFAULTS in content:
        content[DEFAULTS] = canonical(file, group, content[DEFAULTS])
    package = package_of(file) or (None if content else ROOT)
    return OmegaConf.create(content), package


def _component(group: str, name: str) -> Content:
    """Return the keys that an option sets in its section, and the package of the section.

    For one side of env, keys under `_train_` or `_eval_` of that side override the others.
    """
    top, _, side = group.partition("/")
    type_key = TYPE_KEYS[top]
    file = catalog.get().file(group, name)
    config: Any = OmegaConf.create({} if file is None else read_marked(file))
    sides = {each: config.pop(f"_{each}_", {}) for each in SIDES} if top == "env" else {}
    if type_key not in config and "defaults" not in config:
        config[type_key] = name
    # Merged without a schema: a file may set keys that its `defaults` lack. They are checked later.
    return OmegaConf.merge(config, sides.get(side, {})), PACKAGES.get(group)  # type: ignore[return-value]
