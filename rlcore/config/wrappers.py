"""Apply the chains of `env.*.wrappers` and `algorithm.wrappers`.

    the env -> wrapper -> wrapper -> the run

A wrapper is a component of kind `wrapper`. Its `config` is a dataclass that extends
:class:`rlcore.config.schema.EnvWrapping` or :class:`rlcore.config.schema.AlgorithmWrapping`, which
determines whether it wraps envs or algorithms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rlcore.config.bind import check_choices
from rlcore.config.ranges import range_violations
from rlcore.config.schema import AlgorithmWrapping, EnvWrapping, Settings
from rlcore.contracts.errors import ConfigError, PluginError
from rlcore.contracts.protocols import Algorithm, Env
from rlcore.contracts.specs import AlgorithmNeeds, ComponentSpec, EnvSpec
from rlcore.contracts.wrappers import SEALED_METHODS, EnvWrapper
from rlcore.plugins.import_target import load_target
from rlcore.plugins.registry import load_plugins

Chain = Sequence[Any]
"""Entries `NAME` or `{NAME: {key: value}}`, the innermost wrapper first."""


def wrap_env(env: Env, chain: Chain) -> Env:
    """Apply wrappers to an env.

    Raises:
        ConfigError: an entry is malformed, or its wrapper has wrong settings or wraps algorithms.
        PluginError: a wrapper does not exist, or overrides a method in :data:`SEALED_METHODS`.
    """
    for entry in chain:
        component, settings = _wrapper(entry, EnvWrapping)
        env = load_target(component.target)(env, settings)
        _require_sealed(env, component)
    return env


def wrap_env_spec(spec: EnvSpec, chain: Chain) -> EnvSpec:
    """Return the spec of an env under wrappers; raises as :func:`wrap_env`."""
    for entry in chain:
        component, settings = _wrapper(entry, EnvWrapping)
        if component.spec is not None:
            spec = load_target(component.spec)(spec, settings)
    return spec


def wrap_algorithm(algorithm: Algorithm, chain: Chain) -> Algorithm:
    """Apply wrappers to an algorithm.

    Raises:
        ConfigError: an entry is malformed, or its wrapper has wrong settings or wraps envs.
        PluginError: a wrapper does not exist.
    """
    for entry in chain:
        component, settings = _wrapper(entry, AlgorithmWrapping)
        algorithm = load_target(component.target)(algorithm, settings)
    return algorithm


def wrap_needs(needs: AlgorithmNeeds, chain: Chain) -> AlgorithmNeeds:
    """Return the needs of an algorithm under wrappers; raises as :func:`wrap_algorithm`."""
    for entry in chain:
        component, settings = _wrapper(entry, AlgorithmWrapping)
        if component.spec is not None:
            needs = load_target(component.spec)(needs, settings)
    return needs


def _wrapper(entry: Any, base: type[Settings]) -> tuple[ComponentSpec, Any]:
    """Return the component that an entry of a chain names, and its settings.

    Args:
        base: class that the wrapper's settings must extend.

    Raises:
        ConfigError: the entry is malformed, or its wrapper has another base or wrong settings.
        PluginError: the wrapper does not exist, or its settings extend neither base class.
    """
    section = {entry: {}} if isinstance(entry, str) else entry
    if not isinstance(section, Mapping) or len(section) != 1:
        raise ConfigError(
            f"an entry of wrappers must be NAME or {{NAME: {{key: value}}}}, got {entry!r}"
        )
    ((name, values),) = section.items()
    component = load_plugins().usable("wrapper", str(name)).spec
    cls = load_target(component.config) if component.config else None
    if not (isinstance(cls, type) and issubclass(cls, (EnvWrapping, AlgorithmWrapping))):
        raise PluginError(
            f"wrapper {name!r}: {component.config} must be a dataclass that extends EnvWrapping or "
            "AlgorithmWrapping"
        )
    if not issubclass(cls, base):
        key = "algorithm.wrappers" if base is EnvWrapping else "env.train.wrappers"
        raise ConfigError(f"wrapper {name!r} can't be used here: it goes into {key}")
    try:
        settings: Any = OmegaConf.to_object(
            OmegaConf.merge(OmegaConf.structured(cls), values or {})
        )
        check_choices(settings)
        for sentence in range_violations(settings):
            raise ConfigError(sentence)
        return component, settings
    except (OmegaConfBaseException, ConfigError) as error:
        reason = str(error).split("\n", 1)[0]
        keys = ", ".join(vars(cls()))
        raise ConfigError(f"wrapper {name!r}: {reason}", hint=f"its keys: {keys}") from None


def _require_sealed(env: object, component: ComponentSpec) -> None:
    """Raise PluginError for a wrapper that could change success, termination or truncation."""
    if isinstance(env, EnvWrapper) and all(
        _method(type(env), name) is vars(EnvWrapper)[name] for name in SEALED_METHODS
    ):
        return
    raise PluginError(
        f"wrapper {component.name!r}: {component.target} must make an EnvWrapper that does not "
        f"override {', '.join(SEALED_METHODS)}, so that success is measured below it"
    )


def _method(cls: type, name: str) -> object:
    """Return the definition of a method that instances of a class have."""
    return next(vars(base)[name] for base in cls.__mro__ if name in vars(base))
