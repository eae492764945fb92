"""Translate the values of one of RLinf's files to a verdict for each of its keys.

leaves --choose components--> rules of the components, rules of any file --first match--> Verdict
       '-- no match: a spelling of RLinf, else a key of rlcore, else unknown

Every key gets a verdict, and no verdict sets a value that is invalid for its key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from rlcore.config import schema_tree
from rlcore.config.bind import SLOTS, bind, merge, schema_for
from rlcore.config.schema import RunConfig
from rlcore.contracts.errors import ConfigError
from rlcore.plugins.registry import Registry
from rlcore_rlinf.components import ACTING, TRAINED, choose, nested, type_keys
from rlcore_rlinf.reading import MISSING, Leaf, leaves
from rlcore_rlinf.rule import UNSET, ImportRule, RLinfFile
from rlcore_rlinf.rules import RULES, any_file, supervised
from rlcore_rlinf.verdicts import Judge, Verdict, Word

SIDES = ("env.train", "env.eval")


@dataclass(frozen=True)
class Translation:
    """A translated file.

    Attributes:
        components: the chosen component by section (`env.train`, `actor.model`, ...).
        verdicts: one for each key, in the order of the file, then those on assumed defaults.
        is_supervised: whether it is a file of supervised training.
    """

    components: Mapping[str, str]
    verdicts: Sequence[Verdict]
    is_supervised: bool = False

    def values(self) -> dict[str, Any]:
        """Return the values that the recipe sets, by dotted path.

        If the file has only one side of env, its values are used for both.
        """
        values = {verdict.sets: verdict.new for verdict in self.verdicts if verdict.sets}
        for side, other_side in (SIDES, SIDES[::-1]):
            if side not in self.components:
                values |= {
                    side + path.removeprefix(other_side): value
                    for path, value in values.items()
                    if path.startswith(other_side)
                }
        return values


def translate_file(file: Path, composed: DictConfig, registry: Registry) -> Translation:
    """Return the verdicts on a composed file.

    Raises:
        ConfigError: it names no env, model or algorithm that is installed.
        PluginError: a component that it names is installed but can't be used.
    """
    written = {path: leaf.value for path, leaf in leaves(composed, ())}
    components = choose(file, written, registry)
    root = schema_for(registry, [type_keys(components)])
    mappings = {key.path for key in schema_tree.walk(root) if not key.section}
    leaves_by_path = dict(leaves(composed, mappings))
    is_evaluation = not any(path.startswith(TRAINED) for path in leaves_by_path)
    if is_evaluation:  # a file for evaluation: its rollout.model is read as actor.model
        leaves_by_path = {
            _with_prefix(path, ACTING, TRAINED): leaf for path, leaf in leaves_by_path.items()
        }
    verdicts = _without_invalid(
        _resolve_conflicts(_all_verdicts(file, leaves_by_path, root, components)), root
    )
    if is_evaluation:
        verdicts = [
            replace(verdict, theirs=_with_prefix(verdict.theirs, TRAINED, ACTING))
            for verdict in verdicts
        ]
    is_supervised = supervised.is_supervised(written.get(supervised.TASK_TYPE))
    return Translation(components, _with_interpolations(verdicts), is_supervised)


def _with_prefix(path: str, old: str, new: str) -> str:
    """Return a path with its prefix replaced."""
    return new + path.removeprefix(old) if path.startswith(old) else path


def _all_verdicts(
    file: Path, leaves_by_path: Mapping[str, Leaf], root: RunConfig, components: Mapping[str, str]
) -> list[Verdict]:
    values = {path: leaf.value for path, leaf in leaves_by_path.items() if leaf.value != MISSING}
    rules = [*rules_of(components), *any_file.RULES]
    if supervised.is_supervised(values.get(supervised.TASK_TYPE)):
        model = {"actor.model": components["actor.model"]}
        # defaults of reinforcement learning are none of supervised training
        shared = [rule for rule in any_file.RULES if rule.default is UNSET]
        rules = [*supervised.RULES, *rules_of(model), *shared]
    judge = Judge(RLinfFile(file, values), root, rules)
    verdicts = [
        verdict for path, leaf in leaves_by_path.items() for verdict in judge.verdicts(path, leaf)
    ]
    return [*verdicts, *judge.assumed()]


def rules_of(components: Mapping[str, str]) -> list[ImportRule]:
    """Return the rules of components, by section. The rules of an env are for its side."""
    rules: list[ImportRule] = []
    for slot in SLOTS:
        own = RULES.get((slot.kind, components.get(slot.section, "")), ())
        if slot.kind == "env":
            own = tuple(_on_side(rule, slot.section) for rule in own)
        rules += own
    return rules


def _on_side(rule: ImportRule, section: str) -> ImportRule:
    ours = rule.ours and rule.ours.replace("env.*", section)
    return replace(rule, theirs=rule.theirs.replace("env.*", section), ours=ours)


def _without_invalid(verdicts: Sequence[Verdict], root: RunConfig) -> list[Verdict]:
    """Turn verdicts with invalid values into "choose": values that the key does not accept, and
    paths that do not exist on this machine."""
    keys = {key.path: key for key in schema_tree.walk(root)}
    errors = _type_errors([verdict for verdict in verdicts if verdict.sets], root)

    def checked(verdict: Verdict) -> Verdict:
        if not verdict.sets:
            return verdict
        problem = errors.get(id(verdict)) or _value_error(verdict.new, keys[verdict.sets])
        return replace(verdict, word="choose", note=problem) if problem else verdict

    return [checked(verdict) for verdict in verdicts]


def _type_errors(verdicts: Sequence[Verdict], root: RunConfig) -> dict[int, str]:
    """Return the error of each value that has the wrong type for its key, by the identity of its
    verdict.

    All values are tried together, then each half, until the wrong ones are isolated.
    """
    try:
        values: dict[str, Any] = {}
        merge(values, nested({verdict.sets: verdict.new for verdict in verdicts}), root)
        bind(values, deepcopy(root))
    except ConfigError as error:
        if len(verdicts) == 1:
            return {id(verdicts[0]): error.message}
        half = len(verdicts) // 2
        return {**_type_errors(verdicts[:half], root), **_type_errors(verdicts[half:], root)}
    return {}


def _value_error(value: Any, key: schema_tree.Key) -> str:
    """Return why a value of the right type is invalid; empty if it is valid."""
    numbers = [n for n in schema_tree.values_of(value) if isinstance(n, int | float)]
    if not isinstance(value, bool) and any(n not in key.range for n in numbers):
        return f"{key.path} must be {key.range}"
    is_input = key.place in ("read", "checkpoint", "path") and isinstance(value, str)
    if is_input and not Path(value).expanduser().exists():
        return f"not on this machine: give {key.path}=PATH"
    return ""


def _resolve_conflicts(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Select one of several keys that set the same key of rlcore: the one of the same name, else
    the first."""
    deciding: dict[str, Verdict] = {}
    for verdict in verdicts:
        if verdict.sets:
            first = deciding.setdefault(verdict.sets, verdict)
            if verdict.theirs == verdict.sets != first.theirs:
                deciding[verdict.sets] = verdict
    result = []
    for verdict in verdicts:
        winner = deciding.get(verdict.sets, verdict)
        if winner is verdict:
            result.append(verdict)
        elif verdict.word != "assumed":
            is_equal = winner.new == verdict.new
            word: Word = "dropped" if is_equal else "choose"
            note = f"{winner.theirs} {'has the same value' if is_equal else 'takes precedence'}"
            result.append(replace(verdict, word=word, ours=None, new=None, note=note))
    return result


def _with_interpolations(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Restore the interpolations of taken keys that refer only to other taken keys."""
    taken_keys = {verdict.theirs for verdict in verdicts if verdict.word == "taken"}
    return [
        replace(verdict, new=verdict.raw)
        if verdict.word == "taken" and _refers_to(verdict.raw, taken_keys)
        else verdict
        for verdict in verdicts
    ]


def _refers_to(raw: Any, keys: set[str]) -> bool:
    """Check whether a value has interpolations, all of these keys."""
    if not isinstance(raw, str) or "${" not in raw:
        return False
    names = [part.partition("}")[0] for part in raw.split("${")[1:]]
    return all(name in keys for name in names)
