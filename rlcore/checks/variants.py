"""Find settings with which a run needs less memory: bf16, adapters, gradient checkpointing. Light.

    fp32, all weights -> bf16, all weights -> fp32, adapters -> bf16, adapters

Smaller micro-batches and gradient checkpointing keep the results, so both are tried in each of
these ways before the next one. Adapters come last: training them is another training than that of
all weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rlcore.checks.facts import Facts
from rlcore.checks.run import survey
from rlcore.config import schema_tree
from rlcore.config.schema import ModelConfig
from rlcore.placement.memory import BYTES, with_fitting_micro_batches
from rlcore.placement.propose import Fill, fill
from rlcore.plugins.registry import Registry

PRECISION = "actor.model.precision"
ADAPTERS = "actor.model.is_lora"
RECOMPUTED = "actor.fsdp_config.gradient_checkpointing"
CHECKPOINTING = " with gradient checkpointing"
_WAYS = ((False, "fp32"), (False, "bf16"), (True, "fp32"), (True, "bf16"))
_GIB = 2**30


@dataclass(frozen=True)
class Variant:
    """Settings with which a run fits into memory.

    Attributes:
        keys: values of the keys to change, by dotted path.
        words: what does not fit and what does: "not in fp32; in bf16 20.2 of 22.5 GiB".
    """

    keys: Mapping[str, Any]
    words: str


def ways(model: ModelConfig) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (words, keys to change) of the model's own way, then of those that need less memory."""
    (precisions,) = [key.choices for key in schema_tree.walk(model) if key.path == "precision"]
    for adapters, precision in _WAYS:
        needs_less = adapters >= model.is_lora and BYTES[precision] <= BYTES[model.precision]
        if not needs_less or precision not in precisions:
            continue
        keys: dict[str, Any] = {}
        if precision != model.precision:
            keys[PRECISION] = precision
        if adapters != model.is_lora:
            keys[ADAPTERS] = adapters
        yield f"in {precision}{' with adapters' if adapters else ''}", keys


def fitting_variant(facts: Facts, registry: Registry) -> Variant | None:
    """Return the first variant of a run that fits on its machines with its placement, or None."""
    tried: list[str] = []
    for words, keys in ways(facts.config.actor.model):
        own_way = _valid_facts(facts, keys, registry)
        if own_way is None:
            continue
        recomputed = own_way.config.actor.fsdp_config.gradient_checkpointing
        if (fullest := _fullest_if_fitting(own_way)) is not None:
            return Variant(keys, describe_variant(tried, words, fullest))
        if own_way.counted.has_checkpointing and not recomputed:
            fullest = _fullest_if_fitting(with_keys(own_way, {RECOMPUTED: True}))
            if fullest is not None:
                found = describe_variant(tried, words + CHECKPOINTING, fullest)
                return Variant({**keys, RECOMPUTED: True}, found)
        tried.append(words)
    return None


def describe_variant(tried: list[str], words: str, fullest: Fill) -> str:
    """Return the description of a variant that fits.

    Args:
        tried: words of the ways that do not fit, such as "in fp32".
        words: words of the variant.
        fullest: its fullest memory.
    """
    need = fullest.need / _GIB
    have = fullest.have / _GIB
    use = f"{need:.1f} of {have:.1f} GiB" if fullest.have else f"{need:.1f} GiB"
    main = " of main memory" if fullest.what == "node" else ""
    return "; ".join([*not_in(tried), f"{words} {use}{main}"])


def not_in(tried: list[str]) -> list[str]:
    """Return the words for the ways that do not fit, as a list of at most one: "not in fp32"."""
    return [f"not {', nor '.join(tried)}"] if tried else []


def with_keys(facts: Facts, keys: Mapping[str, Any]) -> Facts:
    """Return the facts of a run with other values of keys that change none of its specs."""
    return replace(facts, config=changed(facts.config, keys))


def changed(section: Any, keys: Mapping[str, Any]) -> Any:
    """Return a copy of a configuration, or of a section, with other values of some keys.

    Args:
        keys: values by dotted path within the section.
    """
    for path, value in keys.items():
        name, _, rest = path.partition(".")
        new = changed(getattr(section, name), {rest: value}) if rest else value
        section = replace(section, **{name: new})
    return section


def _valid_facts(facts: Facts, keys: Mapping[str, Any], registry: Registry) -> Facts | None:
    """Return the facts of the run with other values of keys.

    None if a value is refused, or changes nothing: some models have no adapters.
    """
    if not keys:
        return facts
    config = changed(facts.config, keys)
    changed_facts, errors = survey(config, registry, facts.placement, only_look=True)
    refused = any(key in error.message for error in errors for key in keys)
    if refused or changed_facts is None or changed_facts.memory == facts.memory:
        return None
    return changed_facts


def _fullest_if_fitting(facts: Facts) -> Fill | None:
    """Return the fullest memory of a run with micro-batches that fit; None if none does."""
    plan = facts.placement
    fills = fill(plan, with_fitting_micro_batches(plan, facts.memory))
    fits = all(filled.fits for filled in fills)
    return max(fills, key=lambda filled: filled.share) if fits else None
