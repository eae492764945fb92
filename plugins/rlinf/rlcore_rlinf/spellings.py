"""Translate RLinf's key spellings, in recipes and on the command line, with a warning."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf
from typing import TYPE_CHECKING, Any

from rlcore.config import schema_tree
from rlcore.config.translation import Values, put, take
from rlcore.config.warning import warn
from rlcore.contracts.errors import ConfigError
from rlcore.utils.text import abbreviate_list, format_value

if TYPE_CHECKING:
    from rlcore.config.schema import RunConfig

DETERMINISTIC = "rollout.eval_deterministic"
TEMPERATURE = "rollout.eval_temperature"
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
"""`{RLinf's key or section: rlcore's}`, in the order in which they are translated."""
ONE_VALUE: dict[str, tuple[Any, ...]] = {
    "runner.task_type": ("embodied", "embodied_eval"),
    "env.eval.group_size": (1,),
    "rollout.sampling_params.top_p": (1,),
    "rollout.sampling_params.repetition_penalty": (1,),
}
"""`{key: values}` of keys that rlcore does not have; with these values they have no effect."""
CROP = "actor.model.center_crop"
CROPS_OF_ENVS = ("env.train.center_crop", "env.eval.center_crop")
"""RLinf's envs crop images; in rlcore the policy does (:data:`CROP`)."""
_SECTIONS = ("", "env.eval.", "algorithm.", "rollout.", "rollout.sampling_params.")
DO_SAMPLE = tuple(f"{section}do_sample" for section in _SECTIONS)
TEMPERATURES = (
    *(f"{section}temperature" for section in _SECTIONS),
    "rollout.sampling_params.temperature_eval",
)
CHUNK_STEPS = "algorithm.n_chunk_steps"
CHUNK_STEPS_FROM = (
    "env.train.max_steps_per_rollout_epoch",
    "env.train.max_episode_steps",
    "actor.model.num_action_chunks",
)


def translate_rlinf_keys(layers: list[Values], config: RunConfig | None) -> None:
    """Implement :func:`rlcore.contracts.hookspecs.rlcore_translate_keys`.

    Raises:
        ConfigError: a key whose meaning would be lost.
    """
    translate_spellings(layers)
    if config is not None:
        for layer in layers:
            move_crop(layer, config)
        _drop_ignored(layers, config)
        _compare_chunk_steps(layers, config)


def translate_spellings(layers: Iterable[Values]) -> None:
    """Translate the keys that don't depend on the chosen components, in place.

    Args:
        layers: nested raw values.

    Raises:
        ConfigError: a key whose meaning would be lost.
    """
    layers = list(layers)
    for layer in layers:
        for old, value in _pop_keys(layer, RENAMED):
            new = RENAMED[old]
            warn(f"{old} is read as {new}")
            put(layer, new, value)
    # without do_sample, a temperature decides whether evaluations sample
    samples = any(schema_tree.find(layer, key) is not None for layer in layers for key in DO_SAMPLE)
    for layer in layers:
        for old, value in _pop_keys(layer, DO_SAMPLE):
            if not isinstance(value, bool):
                raise ConfigError(f"{old} must be true or false, got {value!r}")
            _replace(layer, old, value, {DETERMINISTIC: not value})
        for old, value in _pop_keys(layer, TEMPERATURES):
            _replace(layer, old, value, _sampling(old, value, samples))
        for key, value in _pop_keys(layer, ONE_VALUE):
            _require(key, value, ONE_VALUE[key])


def _pop_keys(layer: Values, keys: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """Remove each of the keys that a layer sets, and yield it with its value."""
    for key in keys:
        is_set, value = take(layer, key)
        if is_set:
            yield key, value


def _replace(layer: Values, old: str, value: Any, new: Values) -> None:
    """Warn about a key that was removed from a layer, and set the keys that have its meaning."""
    equivalents = " ".join(f"{key}={format_value(translated)}" for key, translated in new.items())
    warn(f"{old}={format_value(value)} is read as {equivalents}")
    for key, translated in new.items():
        put(layer, key, translated)


def _sampling(key: str, value: Any, samples: bool) -> Values:
    """Return the keys that have the meaning of an evaluation's temperature.

    0 takes the most likely action. Other temperatures sample, unless `do_sample` is set.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < inf:
        raise ConfigError(f"{key} must be a number, 0 or more, got {value!r}")
    if value == 0:
        return {DETERMINISTIC: True}
    return {TEMPERATURE: float(value), **({} if samples else {DETERMINISTIC: False})}


def _require(key: str, value: Any, harmless: tuple[Any, ...], note: str = "") -> None:
    if value not in harmless:
        allowed = " or ".join(map(format_value, harmless))
        reason = f": {note}" if note else ""
        raise ConfigError(f"{key} must be {allowed}, or left out{reason}, got {value!r}")


def move_crop(layer: Values, config: RunConfig) -> None:
    """Set the policy's crop from that of an env, in place, unless the env has such a key.

    Args:
        config: configuration with the keys of the chosen components.

    Raises:
        ConfigError: the chosen model can't crop.
    """
    paths = schema_tree.paths(config)
    for old, value in _pop_keys(layer, [key for key in CROPS_OF_ENVS if key not in paths]):
        if CROP in paths:
            warn(f"{old} is read as {CROP}")
            put(layer, CROP, value)
        elif value is not False:
            raise ConfigError(
                f"{old} must be false, or left out: the chosen model has no {CROP}, got {value!r}"
            )


def _drop_ignored(layers: list[Values], config: RunConfig) -> None:
    """Remove RoboTwin's keys without effect, with a warning."""
    sides = [side for side, env in config.env.sides.items() if env.env_type == "robotwin"]
    if not sides:
        return
    from rlcore_rlinf.rules import robotwin  # imported only if the env is RoboTwin

    rules = {rule.theirs.replace("*", side): rule for rule in robotwin.IGNORED for side in sides}
    dropped = []
    for layer in layers:
        for key, value in _pop_keys(layer, rules):
            rule = rules[key]
            if rule.only is not None:
                _require(key, value, rule.only, rule.note)
            dropped.append(key)
    if dropped:
        warn(f"{abbreviate_list(dropped)}: without effect; leave them out")


def _compare_chunk_steps(layers: list[Values], config: RunConfig) -> None:
    """Remove `algorithm.n_chunk_steps`, which other keys determine, and compare it with those that
    are plain numbers."""
    values = [value for layer in layers for _, value in _pop_keys(layer, [CHUNK_STEPS])]
    if not values:
        return
    warn(
        f"{CHUNK_STEPS} is max_steps_per_rollout_epoch // num_action_chunks; the value is "
        "only checked"
    )
    if not str(values[-1]).isdecimal():
        raise ConfigError(f"{CHUNK_STEPS} must be int, got {values[-1]!r}")
    longest, limit, chunk = (_value(layers, config, key) for key in CHUNK_STEPS_FROM)
    steps = longest or limit
    if type(steps) is type(chunk) is int and int(values[-1]) != steps // chunk:
        raise ConfigError(
            f"{CHUNK_STEPS} must be max_steps_per_rollout_epoch // num_action_chunks = "
            f"{steps} // {chunk} = {steps // chunk}, got {values[-1]}",
            hint=f"leave {CHUNK_STEPS} out",
        )


def _value(layers: list[Values], config: RunConfig, path: str) -> Any:
    """Return the value of a key in the last layer that sets it, else its default."""
    values = (schema_tree.find(layer, path) for layer in reversed(layers))
    default = schema_tree.value_of(config, path)
    return next((value for value in values if value is not None), default)
