"""Map key spellings of earlier systems to today's keys, with a warning.

A key that differs from today's only in upper and lower case is not listed here:
:mod:`rlcore.config.bind` corrects it wherever it occurs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from math import inf
from typing import TYPE_CHECKING, Any

from rlcore.config import schema_tree
from rlcore.contracts.errors import ConfigError, RunWarning
from rlcore.terminal.text import written

if TYPE_CHECKING:
    from rlcore.config.schema import RunConfig

CHUNK_STEPS = "algorithm.n_chunk_steps"
Values = dict[str, Any]


class ConfigWarning(RunWarning):
    """Something in the configuration that is understood, but should be written otherwise."""


def warn(message: str) -> None:
    """Warn about the configuration; the command line prints it as one line."""
    warnings.warn(message, ConfigWarning, stacklevel=3)


def modernise(layers: Iterable[Values]) -> list[Values]:
    """`layers` of values (nested, raw) with old spellings replaced.

    Raises:
        ConfigError: an old key whose meaning can't be kept.
    """
    layers = list(layers)
    told = any(_has(layer, old) for layer in layers for old in DO_SAMPLE)
    return [_modernise(layer, told) for layer in layers]


def _modernise(values: Values, told: bool) -> Values:
    """One layer; `told` says that some layer has `do_sample`, so that a temperature does not
    imply it."""
    for old, new in RENAMED.items():
        found, value = take(values, old)
        if found:
            warn(f"{old} is an old spelling of {new}")
            _put(values, new, value)
    for old, rule in RULES.items():
        found, value = take(values, old)
        if found:
            found_new = rule(old, value, told)
            said = " ".join(f"{new}={written(mapped)}" for new, mapped in found_new.items())
            warn(f"{old}={written(value)} is an old spelling of {said}")
            for new, mapped in found_new.items():
                _put(values, new, mapped)
    for (path, old), new in OLD_VALUES.items():
        if schema_tree.find(values, path) == old:
            warn(f"{path}={old} is no longer a way to send weights; {path}={new} is taken")
            take(values, path)
            _put(values, path, new)
    for path, harmless in ONE_VALUE.items():
        found, value = take(values, path)
        if found and value not in harmless:
            raise ConfigError(f"{path} must be {_either(harmless)}, or left out, got {value!r}")
    return values


def move(values: Values, root: RunConfig) -> None:
    """Put keys of `values` where they stand now, in place, unless the chosen component still has
    one of that name. `root` has the keys of the chosen components.

    Raises:
        ConfigError: no chosen component has what the key asks for.
    """
    known = schema_tree.paths(root)
    for old, new in MOVED.items():
        found, value = (False, None) if old in known else take(values, old)
        if not found:
            continue
        if new in known:
            warn(f"{old} is an old spelling of {new}")
            _put(values, new, value)
        elif value is not False:
            raise ConfigError(
                f"{old} must be false, or left out: the chosen model has no {new}, got {value!r}"
            )


def take_chunk_steps(values: Values) -> int | None:
    """Remove `algorithm.n_chunk_steps`, which is derived today; returns it for the check."""
    found, value = take(values, CHUNK_STEPS)
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


def _deterministic_unless(old: str, value: Any, told: bool) -> Values:
    if not isinstance(value, bool):
        raise ConfigError(f"{old} must be true or false, got {value!r}")
    return {GREEDY: not value}


def _temperature(old: str, value: Any, told: bool) -> Values:
    """Convert a temperature of evaluations: 0 takes the most likely action, others sample, unless
    `do_sample` is set."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < inf:
        raise ConfigError(f"{old} must be a number, 0 or more, got {value!r}")
    if value == 0:
        return {GREEDY: True}
    return {"rollout.eval_temperature": float(value), **({} if told else {GREEDY: False})}


def _either(values: Iterable[Any]) -> str:
    """In words."""
    return " or ".join(map(written, values))


GREEDY = "rollout.eval_deterministic"


RENAMED = {
    "fsdp": "actor.fsdp_config",
    "actor.fsdp": "actor.fsdp_config",
    "algorithm.rollout_epoch": "env.train.rollout_epoch",
    "algorithm.eval_rollout_epoch": "env.eval.rollout_epoch",
    "env.train.group_size": "algorithm.group_size",
    "rollout_epoch": "env.eval.rollout_epoch",
    "algorithm.sampling_params": "rollout.sampling_params",
    "rollout.sampling_params.temperature_train": "actor.model.temperature",
    "rollout.sampling_params.top_k": "actor.model.top_k",
}
ONE_VALUE: dict[str, tuple[Any, ...]] = {
    "runner.task_type": ("embodied", "embodied_eval"),
    "env.eval.group_size": (1,),
    "rollout.sampling_params.top_p": (1,),
    "rollout.sampling_params.repetition_penalty": (1,),
}
"""Keys that decided something in earlier systems; here they have values that nothing reads."""
MOVED = {f"env.{side}.center_crop": "actor.model.center_crop" for side in ("train", "eval")}
"""What the env did to images, and the policy does now."""
_PLACES = ("", "env.eval.", "algorithm.", "rollout.", "rollout.sampling_params.")
DO_SAMPLE = tuple(
    f"{place}do_sample" for place in (*_PLACES, "algorithm.sampling_params.")
)  # the last one is looked for before it is renamed
RULES: dict[str, Callable[[str, Any, bool], Values]] = {
    **{old: _deterministic_unless for old in DO_SAMPLE},
    **{f"{place}temperature": _temperature for place in _PLACES},
    "rollout.sampling_params.temperature_eval": _temperature,
}
OLD_VALUES = {("rollout.sync", "shared_memory"): "object_store"}


def _has(values: Values, path: str) -> bool:
    return schema_tree.find(values, path) is not None


def take(values: Values, path: str) -> tuple[bool, Any]:
    """Remove the value at a dotted path, and sections it leaves empty."""
    head, _, rest = path.partition(".")
    if head not in values:
        return False, None
    if not rest:
        return True, values.pop(head)
    inner = values[head]
    if not isinstance(inner, dict):
        return False, None
    found, value = take(inner, rest)
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
