"""The Hydra config source behind `env=`, `model=` and `algorithm=`.

    env/X                  a defaults list: [train: X, eval: X]
    env/train/X, env/eval/X    the option's file, with the keys under `_train_` / `_eval_`
                               applied on that side only
    model/X                the option's file, in the package actor.model
    algorithm/X            the option's file

A registered component without a file is an option too: its file would only name it.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigLoadError, ConfigResult, ConfigSource
from omegaconf import DictConfig, OmegaConf

from rlcore.config.catalog import COMPONENT_GROUPS, SIDES, TYPE_KEYS, Catalog
from rlcore.config.recipes import read_mapping

SCHEME = "rlcore"
PACKAGES = {"model": "_global_.actor.model"}
catalog: ContextVar[Catalog] = ContextVar("catalog")
"""What is served: Hydra makes sources from an address alone, so it can't be handed over."""


class ComponentSource(ConfigSource):
    """Serves the groups of components."""

    @staticmethod
    def scheme() -> str:
        return SCHEME

    def available(self) -> bool:
        return True

    def is_group(self, config_path: str) -> bool:
        groups = {"", *COMPONENT_GROUPS, *(f"env/{side}" for side in SIDES)}
        return config_path.rstrip("/") in groups

    def is_config(self, config_path: str) -> bool:
        group, name = _split(config_path)
        return group != "" and self.is_group(group) and name in catalog.get().options(group)

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        path = config_path.rstrip("/")
        groups = {"": list(COMPONENT_GROUPS), "env": list(SIDES)}.get(path, [])
        options = catalog.get().options(path) if path and self.is_group(path) else []
        if results_filter == ObjectType.GROUP:
            return sorted(groups)
        return sorted(options if results_filter == ObjectType.CONFIG else {*groups, *options})

    def load_config(self, config_path: str) -> ConfigResult:
        group, name = _split(config_path)
        if not self.is_config(config_path):
            raise ConfigLoadError(f"no option {config_path}")
        if group == "env":
            config = OmegaConf.create({"defaults": [{side: name} for side in SIDES]})
        else:
            config = _content(group, name)
        return ConfigResult(
            provider=self.provider,
            path=self.full_path(),
            config=config,
            header={"package": PACKAGES.get(group)},
        )


def _split(config_path: str) -> tuple[str, str]:
    group, _, name = config_path.removesuffix(".yaml").rpartition("/")
    return group, name


def _content(group: str, name: str) -> DictConfig:
    """The keys an option sets in its section."""
    top, _, side = group.partition("/")
    type_key = TYPE_KEYS[top]
    file = catalog.get().file(top, name)
    config: Any = OmegaConf.create({} if file is None else read_mapping(file))
    sides = {each: config.pop(f"_{each}_", {}) for each in SIDES} if top == "env" else {}
    if type_key not in config and "defaults" not in config:
        config[type_key] = name
    # A file may set keys that its `defaults` do not know yet: plain merging, checked later.
    return OmegaConf.merge(config, sides.get(side, {}))  # type: ignore[return-value]
