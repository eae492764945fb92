"""Compute the configurations of a protocol's rows.

A row changes keys of `env.eval`. The command line can't set these keys to other values, unless the
protocol lists them in `may_differ`; then the results are marked as not those of the protocol.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from rlcore.config.bind import check_choices
from rlcore.config.catalog import SIDES
from rlcore.config.schema import RunConfig
from rlcore.config.warning import warn
from rlcore.contracts.errors import ConfigError, PluginError, did_you_mean
from rlcore.contracts.specs import ProtocolSpec
from rlcore.plugins.import_target import load_target
from rlcore.plugins.registry import Registry, load_plugins

EVALUATED = "env.eval"  # the section that rows change


def rows_of(
    config: RunConfig, *, protocol: str, given: Collection[str] = ()
) -> dict[str, RunConfig]:
    """Return the configuration of each row of a registered protocol, by the row's name.

    The rows are the further sides on which the run evaluates. A warning names keys that the command
    line sets to other values than the protocol.

    Args:
        config: configuration of the run.
        protocol: registered name of the protocol.
        given: paths of the keys that the command line sets.

    Raises:
        ConfigError: as :func:`row_configs`.
        PluginError: as :func:`protocol_spec` and :func:`row_configs`.
    """
    spec = protocol_spec(load_plugins(), protocol)
    configs = row_configs(config, protocol, spec, given)
    for caveat in dict.fromkeys(other_than(spec, protocol, configs).values()):
        warn(caveat)
    return configs


def protocol_spec(registry: Registry, name: str) -> ProtocolSpec:
    """Return a registered protocol.

    Raises:
        PluginError: no protocol has that name, its target is no ProtocolSpec, or the spec
            contradicts itself.
    """
    component = registry.get("protocol", name)
    spec = load_target(component.spec.target)
    if not isinstance(spec, ProtocolSpec):
        raise PluginError(
            f"protocol {name!r} of {component.distribution}: {component.spec.target} must be a "
            f"ProtocolSpec, got {type(spec).__name__}"
        )
    for fault in _faults(spec):
        raise PluginError(f"protocol {name!r} of {component.distribution}: {fault}")
    return spec


def _faults(spec: ProtocolSpec) -> Iterator[str]:
    """Yield faults of a spec that would break or lose results only after episodes are played."""
    if not spec.groups:
        yield "it has no groups"
    set_by_rows = {key for _, changes in _settings(spec) for key in changes}
    for key in spec.may_differ:
        if key not in set_by_rows:
            yield f"{key!r} may differ, and no row sets it"
    names: set[str] = set()
    for group, rows in spec.groups.items():
        if not rows:
            yield f"group {group!r} has no rows"
        for row in rows:
            if row in names:
                yield f"two rows are called {row!r}: every row needs a name of its own"
            if row in SIDES:
                yield f"a row can't be called {row!r}: rlcore itself uses {', '.join(SIDES)}"
            names.add(row)
    for result in spec.published:
        for column in result.figures.keys() - {*spec.groups, *spec.averages, *spec.totals}:
            yield f"{result.model} has a published figure for {column!r}, no column of its table"
    for kind, aggregates in (("average", spec.averages), ("total", spec.totals)):
        for name, members in aggregates.items():
            if not members:
                yield f"{kind} {name!r} is over no groups"
            for group in members:
                if group not in spec.groups:
                    groups = ", ".join(map(repr, spec.groups))
                    yield f"{kind} {name!r} is over {group!r}, not one of its groups: {groups}"


def row_configs(
    config: RunConfig, name: str, spec: ProtocolSpec, given: Collection[str] = ()
) -> dict[str, RunConfig]:
    """Return the configuration of each row of a protocol, by the row's name.

    Args:
        config: configuration of the run.
        name: name of the protocol, for error messages.
        spec: the protocol.
        given: paths of the keys that the command line sets. Its values of keys in `may_differ`
            replace those of the rows.

    Raises:
        ConfigError: the run has another env than the protocol, the command line sets another value
            of a key that a row sets and that is not in `may_differ`, or a row sets a text that is
            not among the choices of its key.
        PluginError: a row sets a key that the env does not have.
    """
    env = config.env.eval
    if env.env_type != spec.env:
        raise ConfigError(
            f"protocol={name} is for env {spec.env}, env.eval is {env.env_type}",
            hint=f"choose env={spec.env}, or another protocol",
        )
    keys = {field.name for field in fields(env)}
    overrides = {
        key: getattr(env, key)
        for key in keys
        # a key of the env may be a section, whose keys are given one by one
        if any(f"{path}.".startswith(f"{EVALUATED}.{key}.") for path in given)
    }
    configs = {}
    for row, changes in _settings(spec):
        for key in changes.keys() - keys:
            raise PluginError(
                f"protocol {name!r} sets {key!r} for {row!r}, which env {spec.env} does not have."
                f"{did_you_mean(key, keys)}"
            )
        for key in sorted(overrides.keys() & changes.keys() - set(spec.may_differ)):
            if overrides[key] != changes[key]:
                expected, got = (
                    json.dumps(values[key], default=str) for values in (changes, overrides)
                )
                raise ConfigError(
                    f"{EVALUATED}.{key} must be left out, or {expected}: protocol={name} sets it "
                    f"for {row!r}, got {got}",
                    hint=_may_be_set(spec),
                )
        allowed = {key: overrides[key] for key in spec.may_differ if key in overrides}
        changed = replace(
            config, env=replace(config.env, eval=replace(env, **{**changes, **allowed}))
        )
        check_choices(changed)
        changed.freeze()
        configs[row] = changed
    return configs


def _settings(spec: ProtocolSpec) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for rows in spec.groups.values():
        yield from rows.items()


def _may_be_set(spec: ProtocolSpec) -> str | None:
    keys = ", ".join(f"{EVALUATED}.{key}" for key in spec.may_differ)
    return f"keys that may be set with this protocol: {keys}" if keys else None


def other_than(spec: ProtocolSpec, name: str, configs: Mapping[str, RunConfig]) -> dict[str, str]:
    """Return a caveat for each row that is played under other settings than the protocol's.

    Args:
        configs: result of :func:`row_configs`.

    Returns:
        `{row: caveat}`, which names the keys in `may_differ` that differ, with their values.
    """
    caveats = {}
    for row, changes in _settings(spec):
        settings = vars(configs[row].env.eval)
        differing = [k for k in spec.may_differ if k in changes and settings[k] != changes[k]]
        if differing:
            keys = ", ".join(f"{EVALUATED}.{key}={settings[key]}" for key in differing)
            caveats[row] = f"{keys}: figures are not those of protocol={name}"
    return caveats
