"""Spellings of earlier systems: each is understood, mapped to today's key, and warned about.

A key that differs from today's only in upper and lower case is not listed here: that is mended
wherever it occurs (:mod:`rlcore.config.bind`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from rlcore.errors import ConfigError, RunWarning

CHUNK_STEPS = "algorithm.n_chunk_steps"
Values = dict[str, Any]


class ConfigWarning(RunWarning):
    """Something in the configuration that is understood, but should be written otherwise."""


def warn(message: str) -> None:
    """Warn about the configuration; the command line prints it as one line."""
    warnings.warn(message, ConfigWarning, stacklevel=3)


def modernise(values: Values) -> Values:
    """`values` (nested, raw) with old spellings replaced.

    Raises:
        ConfigError: an old key whose meaning can't be kept.
    """
    for old, new in RENAMED.items():
        found, value = _take(values, old)
        if found:
            warn(f"{old} is an old spelling of {new}")
            _put(values, new, value)
    for old, rule in RULES.items():
        found, value = _take(values, old)
        if found:
            new, mapped = rule(old, value)
            warn(f"{old}={value} is an old spelling of {new}={mapped}")
            _put(values, new, mapped)
    for path, only in ONE_VALUE.items():
        found, value = _take(values, path)
        if found and value != only:
            raise ConfigError(f"{path} must be {only}, or left out, got {value!r}")
    return values


def take_chunk_steps(values: Values) -> int | None:
    """Remove `algorithm.n_chunk_steps`, which is derived today; returns it for the check."""
    found, value = _take(values, CHUNK_STEPS)
    if not found:
        return None
    warn(
        f"{CHUNK_STEPS} is derived now (max_steps_per_rollout_epoch // num_action_chunks); "
        "it is only compared"
    )
    try:
        return int(value)
    except (TypeError, ValueError):
        raise ConfigError(f"{CHUNK_STEPS} must be int, got {value!r}") from None


def _deterministic_unless(old: str, value: Any) -> tuple[str, Any]:
    if not isinstance(value, bool):
        raise ConfigError(f"{old} must be true or false, got {value!r}")
    return "rollout.eval_deterministic", not value


def _temperature(old: str, value: Any) -> tuple[str, Any]:
    """0 is greedy, 1 samples the policy as it is; other temperatures belong to the model."""
    if value not in (0, 1):
        raise ConfigError(
            f"{old}={value!r}: an evaluation samples at temperature 0 or 1",
            hint="rollout.eval_deterministic=true (0) or =false (1); a model that has "
            "temperatures has keys for them: rlcore train --help actor.model",
        )
    return "rollout.eval_deterministic", value == 0


RENAMED = {
    "fsdp": "actor.fsdp_config",
    "actor.fsdp": "actor.fsdp_config",
    "algorithm.rollout_epoch": "env.train.rollout_epoch",
    "algorithm.eval_rollout_epoch": "env.eval.rollout_epoch",
    "env.train.group_size": "algorithm.group_size",
    "rollout_epoch": "env.eval.rollout_epoch",
}
ONE_VALUE = {
    "runner.task_type": "embodied",
    "actor.fsdp_config.sharding_strategy": "no_shard",
    "env.eval.group_size": 1,
}
"""Keys that decided something in earlier systems; here they have one value that nothing reads."""
_PLACES = ("", "env.eval.", "algorithm.", "rollout.", "rollout.sampling_params.")
RULES: dict[str, Callable[[str, Any], tuple[str, Any]]] = {
    **{f"{place}do_sample": _deterministic_unless for place in _PLACES},
    **{f"{place}temperature": _temperature for place in _PLACES},
    "rollout.sampling_params.temperature_eval": _temperature,
}


def _take(values: Values, path: str) -> tuple[bool, Any]:
    """Remove the value at a dotted path, and sections it leaves empty."""
    head, _, rest = path.partition(".")
    if head not in values:
        return False, None
    if not rest:
        return True, values.pop(head)
    inner = values[head]
    if not isinstance(inner, dict):
        return False, None
    found, value = _take(inner, rest)
    if found and not inner:
        del values[head]
    return found, value


def _put(values: Values, path: str, value: Any) -> None:
    """Set a dotted path; a value already there under the new spelling wins."""
    head, _, rest = path.partition(".")
    if rest:
        _put(values.setdefault(head, {}), rest, value)
    elif isinstance(value, dict) and isinstance(values.get(head), dict):
        values[head] = {**value, **values[head]}
    else:
        values.setdefault(head, value)
