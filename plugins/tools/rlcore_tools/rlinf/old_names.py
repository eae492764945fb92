"""Map RLinf's key spellings, in files and on the command line, to today's keys, with a warning."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf
from typing import TYPE_CHECKING, Any

from rlcore.config import schema_tree
from rlcore.config.translation import Values, put, take
from rlcore.config.warning import warn
from rlcore.contracts.errors import ConfigError
from rlcore.terminal.text import format_value

if TYPE_CHECKING:
    from rlcore.config.schema import RunConfig

CHUNK_STEPS = "algorithm.n_chunk_steps"
STEPS = (
    "env.train.max_steps_per_rollout_epoch",
    "env.train.max_episode_steps",
    "actor.model.num_action_chunks",
)


def put_right(layers: list[Values], config: RunConfig | None) -> None:
    """What :func:`rlcore.contracts.hookspecs.rlcore_translate_keys` asks for.

    Raises:
        ConfigError: an old key whose meaning can't be kept.
    """
    modernise(layers)
    if config is not None:
        for layer in layers:
            move(layer, config)
        _compare_chunk_steps(layers, config)


def modernise(layers: Iterable[Values]) -> list[Values]:
    """`layers` of values (nested, raw) with old spellings replaced.

    Raises:
        ConfigError: an old key whose meaning can't be kept.
    """
    layers = list(layers)
    told = any(schema_tree.find(layer, old) is not None for layer in layers for old in DO_SAMPLE)
    return [_modernise(layer, told) for layer in layers]


def _modernise(values: Values, told: bool) -> Values:
    """One layer; `told` says that some layer has `do_sample`, so that a temperature does not
    imply it."""
    for old, new in RENAMED.items():
        found, value = take(values, old)
        if found:
            warn(f"{old} is read as {new}")
            put(values, new, value)
    for old, rule in RULES.items():
        found, value = take(values, old)
        if found:
            found_new = rule(old, value, told)
            said = " ".join(f"{new}={format_value(mapped)}" for new, mapped in found_new.items())
            warn(f"{old}={format_value(value)} is read as {said}")
            for new, mapped in found_new.items():
                put(values, new, mapped)
    for path, harmless in ONE_VALUE.items():
        found, value = take(values, path)
        if found and value not in harmless:
            either = " or ".join(map(format_value, harmless))
            raise ConfigError(f"{path} must be {either}, or left out, got {value!r}")
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
            warn(f"{old} is read as {new}")
            put(values, new, value)
        elif value is not False:
            raise ConfigError(
                f"{old} must be false, or left out: the chosen model has no {new}, got {value!r}"
            )


def _compare_chunk_steps(layers: list[Values], config: RunConfig) -> None:
    """Remove `algorithm.n_chunk_steps`, which is derived today, and compare it with what follows
    from the other keys, as far as these are plain numbers."""
    given = [value for layer in layers for found, value in [take(layer, CHUNK_STEPS)] if found]
    if not given:
        return
    warn(
        f"{CHUNK_STEPS} is derived now (max_steps_per_rollout_epoch // num_action_chunks); "
        "it is only compared"
    )
    if not str(given[-1]).isdecimal():
        raise ConfigError(f"{CHUNK_STEPS} must be int, got {given[-1]!r}")
    longest, limit, chunk = (_now(layers, config, path) for path in STEPS)
    steps = longest or limit
    if type(steps) is type(chunk) is int and int(given[-1]) != steps // chunk:
        raise ConfigError(
            f"{CHUNK_STEPS} must be max_steps_per_rollout_epoch // num_action_chunks = "
            f"{steps} // {chunk} = {steps // chunk}, got {given[-1]}",
            hint=f"leave {CHUNK_STEPS} out",
        )


def _now(layers: list[Values], config: RunConfig, path: str) -> Any:
    """The value of a key that was given last; else its default."""
    given = (schema_tree.find(layer, path) for layer in reversed(layers))
    default = schema_tree.value_of(config, path)
    return next((value for value in given if value is not None), default)


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
