"""Bind plain values to the typed :class:`RunConfig`. Only this module checks keys and types.

    raw values --names--> values under the schema's names --types--> dataclasses --choices-->

Values of files and of the command line pass through the same functions, so both get the same
errors. A `+` before a key does not skip these checks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from difflib import get_close_matches
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rlcore.config import schema_tree
from rlcore.config.catalog import COMPONENT_GROUPS, EXPERIMENT, TYPE_KEYS
from rlcore.config.scalars import as_text
from rlcore.config.schema import (
    AlgorithmConfig,
    EnvConfig,
    EnvPair,
    ModelConfig,
    PluginConfig,
    PluginsConfig,
    RunConfig,
    Settings,
)
from rlcore.config.schema.sources import MISSING
from rlcore.config.translation import Values
from rlcore.config.warning import warn
from rlcore.contracts.errors import ConfigError, PluginError, did_you_mean
from rlcore.contracts.specs import Kind
from rlcore.plugins.distributions import folders
from rlcore.plugins.extras import offered
from rlcore.plugins.import_target import load_target
from rlcore.plugins.registry import Registry
from rlcore.utils.text import shorten


class Partial(dict[str, Any]):
    """A mapping that changes single entries of a key's mapping, instead of replacing all of it."""


@dataclass(frozen=True)
class Slot:
    """A section of the configuration that a component fills.

    Attributes:
        kind: the kind of the component.
        section: dotted path of the section.
        base: the class that the section's dataclass of every plugin must extend.
    """

    kind: Kind
    section: str
    base: type[Settings]

    @property
    def type_key(self) -> str:
        return schema_tree.join(self.section, TYPE_KEYS[self.kind])

    @property
    def group(self) -> str:
        """Return the group whose option fills the section, e.g. "env/train" or "model"."""
        return self.section.replace(".", "/") if self.kind == "env" else self.kind


SLOTS = (
    Slot("env", "env.train", EnvConfig),
    Slot("env", "env.eval", EnvConfig),
    Slot("model", "actor.model", ModelConfig),
    Slot("algorithm", "algorithm", AlgorithmConfig),
)


def schema_for(registry: Registry, layers: Iterable[Values]) -> RunConfig:
    """Return the defaults of a run with the components that the layers name; later layers win.

    Where no component is named, the section is an instance of the base class with an empty name.

    Raises:
        PluginError: a component that is not installed, or whose settings don't load.
    """
    names: dict[str, str] = {}
    for layer in layers:
        for slot in SLOTS:
            name = as_text(schema_tree.find(layer, slot.type_key))
            if isinstance(name, str) and name != MISSING:
                names[slot.section] = name
    train, evaluation, model, algorithm = (
        default_settings(registry, slot, names.get(slot.section, "")) for slot in SLOTS
    )
    root = RunConfig(algorithm=algorithm)  # type: ignore[arg-type]
    root.env = EnvPair(train=train, eval=replace(evaluation, split=EnvPair().eval.split))  # type: ignore[arg-type,type-var]
    root.actor.model = model  # type: ignore[assignment]
    root.plugins = plugin_settings(registry.settings)
    return root


def plugin_settings(classes: Mapping[str, str]) -> PluginsConfig:
    """Return the default settings of plugins that have settings.

    Args:
        classes: `"module:attr"` of each settings class, by the plugin's name.

    Raises:
        PluginError: a target that is no :class:`PluginConfig` dataclass.
    """
    sections = {name: load_target(target)() for name, target in classes.items()}
    for name, section in sections.items():
        if not (is_dataclass(section) and isinstance(section, PluginConfig)):
            raise PluginError(f"plugin {name!r}: rlcore_settings must name a PluginConfig")
    return PluginsConfig.from_sections(sections)


def default_settings(registry: Registry, slot: Slot, name: str) -> Settings:
    """Return the default section of a component.

    Args:
        name: of the component; empty: the base class with an empty name.

    Raises:
        PluginError: the component is not installed, its settings are no dataclass that extends
            `slot.base`, or a key has a type that OmegaConf does not support.
    """
    if not name:
        return slot.base(**{TYPE_KEYS[slot.kind]: ""})
    component = registry.get(slot.kind, name)
    if component.spec.config is None:
        return slot.base(**{TYPE_KEYS[slot.kind]: name})
    cls = load_target(component.spec.config)
    place = f"{slot.kind} {name!r} of {component.distribution}: {component.spec.config}"
    if (
        not (isinstance(cls, type) and issubclass(cls, slot.base))
        # without the decorator a subclass passes for a dataclass, but its own keys are no fields
        or vars(cls).get("__annotations__", {}).keys() - vars(cls).get("__dataclass_fields__", {})
    ):
        raise PluginError(f"{place} must be a @dataclass that extends {slot.base.__name__}")
    settings = cls(**{TYPE_KEYS[slot.kind]: name})
    try:
        OmegaConf.structured(settings)
    except OmegaConfBaseException as error:
        raise PluginError(f"{place}: {error.key}: {_first_line(error)}") from None
    return settings


# -- names ----------------------------------------------------------------------------------


def merge(values: Values, layer: Mapping[str, Any], root: RunConfig) -> None:
    """Merge a layer into `values`, in place, with each key spelled as in the schema.

    Raises:
        ConfigError: an unknown key, or a single value for a section.
    """
    _merge(values, layer, root, "", root)


def _merge(
    values: Values, layer: Mapping[str, Any], section: Any, path: str, root: RunConfig
) -> None:
    for raw, new in layer.items():
        name = _spelling(str(raw), section, path, root)
        key_path = schema_tree.join(path, name)
        default = getattr(section, name)
        if schema_tree.is_section(default):
            if not isinstance(new, Mapping):
                raise not_a_section(key_path, new, default)
            _merge(values.setdefault(name, {}), new, default, key_path, root)
        elif isinstance(new, Partial):
            if schema_tree.type_of(section, name) != "Any":
                below = schema_tree.join(key_path, next(iter(new)))
                raise unknown_key(below, root)
            base = values.get(name, default)
            values[name] = _change_entries(base if isinstance(base, Mapping) else {}, new)
        else:
            values[name] = new


def _spelling(raw: str, section: Any, path: str, root: RunConfig) -> str:
    names = [field.name for field in fields(section)]
    if raw in names:
        return raw
    near = [name for name in names if name.lower() == raw.lower()]
    if len(near) != 1:
        raise unknown_key(schema_tree.join(path, raw), root)
    warn(f"{schema_tree.join(path, raw)} is read as {schema_tree.join(path, near[0])}")
    return near[0]


def _change_entries(mapping: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return `mapping` with single entries replaced.

    If a changed name is part of a key that joins names by commas, that key is split: each of the
    other names gets an entry with the old value.
    """
    result = dict(mapping)
    for name, value in changes.items():
        for joined in [key for key in result if name in _names(key) and key != name]:
            shared = result.pop(joined)
            result.update({part: shared for part in _names(joined) if part != name})
        result[name] = _plain(value)
    return result


def _plain(value: Any) -> Any:
    return {k: _plain(v) for k, v in value.items()} if isinstance(value, Partial) else value


def _names(joined: str) -> list[str]:
    return [name.strip() for name in joined.split(",")]


def unknown_key(path: str, root: RunConfig, others: Iterable[str] = ()) -> ConfigError:
    """Return the error for a key that does not exist.

    It suggests at most two keys of the same name in other sections; if there are none, the most
    similar word among all paths, the groups and `others`. Paths with dots that are written as one
    key of a file, and groups that are written as keys, get errors that explain this.

    Args:
        others: further words that may have been meant.
    """
    paths = schema_tree.paths(root)
    if path in paths:  # an override with this path would have been split at the dots
        nested = ": {".join(path.split(".")) + ": VALUE" + "}" * path.count(".")
        return ConfigError(
            f"{path!r} is one key with dots in a file, where keys stand inside each other",
            hint=f"write it as {nested}",
        )
    if path in {*COMPONENT_GROUPS, EXPERIMENT, *(slot.group for slot in SLOTS)}:
        return ConfigError(
            f"{path!r} is a group and no key: a file chooses from it in its list `defaults`",
            hint=f"defaults: [{'' if path == EXPERIMENT else f'override /{path}: '}NAME]",
        )
    leaf = path.rpartition(".")[2].lower()
    moved = [key for key in paths if key.rpartition(".")[2].lower() == leaf]
    words = [*paths, *COMPONENT_GROUPS, EXPERIMENT, *others]  # groups are chosen like keys
    near = moved[:2] or get_close_matches(path, words, n=1, cutoff=0.6)
    guess = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    command = offered("key", path, loaded=folders())
    if command is not None:
        return ConfigError(
            f"unknown key {path!r}.{guess}",
            hint=f"a plugin that is not installed translates this key: {command}",
        )
    section = path.rpartition(".")[0]
    hint = f"rlcore train --help {section}" if section in paths else "rlcore train --help"
    return ConfigError(f"unknown key {path!r}.{guess}", hint=hint)


def not_a_section(path: str, value: Any, default: Any) -> ConfigError:
    """Return the error for a section that is given a single value."""
    group = {"env": "env", **{slot.section: slot.group for slot in SLOTS}}.get(path)
    chosen = value if isinstance(value, str) else "NAME"
    hint = f"{group}={chosen} chooses one" if group else f"rlcore train --help {path}"
    names = ", ".join(field.name for field in fields(default)[:4])
    return ConfigError(f"{path} is a section ({names}, ...), got {value!r}", hint=hint)


# -- types ----------------------------------------------------------------------------------


def bind(values: Values, root: RunConfig) -> RunConfig:
    """Return the configuration: `root` with `values` assigned to its keys.

    Args:
        values: nested, with each key spelled as in the schema (:func:`merge`).
        root: the defaults.

    Raises:
        ConfigError: a value of the wrong type or not among its choices, an interpolation that
            does not resolve.
    """
    node = OmegaConf.structured(root)
    _assign(node, values, root, "")
    _resolve(node, root)
    config = OmegaConf.to_object(node)
    assert isinstance(config, RunConfig)
    check_choices(config)
    return config


def _resolve(node: DictConfig, root: RunConfig) -> None:
    """Replace all interpolations `${...}` by values, in place.

    Raises:
        ConfigError: names the key whose interpolation does not resolve.
    """
    try:
        OmegaConf.resolve(node)
        return
    except OmegaConfBaseException as error:
        problem: Exception = error
    # OmegaConf's error names the key that is looked up. To find the key that refers to it, each
    # key is resolved by itself.
    for key in schema_tree.walk(root):
        if key.section:
            continue
        section, name = _parent(node, key.path)
        try:
            OmegaConf.to_container(OmegaConf.create({name: section[name]}), resolve=True)
        except OmegaConfBaseException as error:
            value = OmegaConf.to_container(section, resolve=False)[name]  # type: ignore[index,call-overload]
            raise ConfigError(
                f"{key.path}: {value!r} does not resolve: {_first_line(error)}",
                hint="${section.key} is the value of another key, ${oc.env:NAME} of a variable",
            ) from None
    raise ConfigError(_first_line(problem)) from None


def _parent(node: DictConfig, path: str) -> tuple[DictConfig, str]:
    *sections, name = path.split(".")
    for section in sections:
        node = node[section]
    return node, name


def _assign(node: DictConfig, values: Mapping[str, Any], section: Any, path: str) -> None:
    for name, value in values.items():
        key_path = schema_tree.join(path, name)
        default = getattr(section, name)
        if schema_tree.is_section(default):
            _assign(node[name], value, default, key_path)
            continue
        type_name = schema_tree.type_of(section, name)
        try:
            _reject_implicit_conversion(type_name, value)
            node[name] = value
        except (OmegaConfBaseException, ValueError, OverflowError):  # overflow: int to float
            as_list = type_name.startswith("list[") and isinstance(value, (str, int, float))
            hint = f"'{key_path}=[{value}]'; " if as_list else ""
            raise ConfigError(
                f"{key_path} must be {type_name}, got {shorten(value, 200)}",
                hint=f"{hint}rlcore train --help {key_path}",
            ) from None


def _reject_implicit_conversion(type_name: str, value: Any) -> None:
    """Refuse values that OmegaConf accepts although they are surely mistakes.

    Raises:
        ValueError: a number other than 0 and 1 for a bool, a string with a NUL character, or a
            list or mapping with a `???` in it.
    """
    if type_name.startswith("bool") and isinstance(value, (int, float)) and value not in (0, 1):
        raise ValueError
    if isinstance(value, str) and "\0" in value:
        raise ValueError
    if isinstance(value, (list, dict)) and MISSING in _parts(value):
        raise ValueError


def _parts(value: Any) -> Iterator[Any]:
    """Yield the values of a list or mapping, and a mapping's keys, at all levels of nesting."""
    inside = [*value.keys(), *value.values()] if isinstance(value, dict) else value
    for part in inside:
        if isinstance(part, (list, dict)):
            yield from _parts(part)
        else:
            yield part


def check_choices(config: RunConfig) -> None:
    """Check that the value of each key with choices is one of them, or None.

    Raises:
        ConfigError: names the key, its value and the choices.
    """
    for key in schema_tree.walk(config):
        if key.choices and key.value is not None and key.value not in key.choices:
            guess = did_you_mean(str(key.value), key.choices)
            listed = ", ".join(key.choices)
            raise ConfigError(f"{key.path} must be one of {listed}, got {key.value!r}.{guess}")


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0]
