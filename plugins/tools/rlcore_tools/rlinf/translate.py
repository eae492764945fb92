"""Translate the values of one of RLinf's files to a verdict for each of its keys.

leaves --which components--> rules of theirs and the shared ones --first that fits--> Verdict
       '-- no rule: an old spelling, else a key of rlcore, else unknown

Every key gets a verdict, and no verdict's value is one that its key would refuse.
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
from rlcore.plugins.import_target import load_target
from rlcore.plugins.registry import Registry
from rlcore_tools.import_rules import Foreign, ImportRule
from rlcore_tools.rlinf import shared
from rlcore_tools.rlinf.components import ACTING, MODEL, choose, nested, type_keys
from rlcore_tools.rlinf.reading import MISSING, Leaf, leaves
from rlcore_tools.rlinf.verdicts import Judge, Verdict, Word

TRAIN_EVAL = ("env.train", "env.eval")


@dataclass(frozen=True)
class Translation:
    """A file, translated.

    Attributes:
        components: the chosen component by section (`env.train`, `actor.model`, ...).
        verdicts: one for each key, in the order of the file; what was assumed comes last.
    """

    components: Mapping[str, str]
    verdicts: Sequence[Verdict]

    def values(self) -> dict[str, Any]:
        """What the recipe sets, by dotted path. A file with one side of env means it for both."""
        values = {verdict.settles: verdict.new for verdict in self.verdicts if verdict.settles}
        for side, other in (TRAIN_EVAL, TRAIN_EVAL[::-1]):
            if side not in self.components:
                own = {path: value for path, value in values.items() if path.startswith(other)}
                values |= {side + path.removeprefix(other): value for path, value in own.items()}
        return values


def translate(file: Path, composed: DictConfig, registry: Registry) -> Translation:
    """The verdicts on a composed file.

    Raises:
        ConfigError: it names no env, model or algorithm that is installed.
        PluginError: one that is installed and can't be used.
    """
    flat = dict(leaves(composed, ()))
    components = choose(file, {path: leaf.value for path, leaf in flat.items()}, registry)
    root = schema_for(registry, [type_keys(components)])
    rules = [*rules_of(components, registry), *shared.RULES]
    whole = {key.path for key in schema_tree.walk(root) if not key.section}
    found = _as_actor(dict(leaves(composed, whole)))
    said = {path: leaf.value for path, leaf in found.items() if leaf.value != MISSING}
    foreign = Foreign(file, said)
    judge = Judge(foreign, root, rules)
    verdicts = [each for path, leaf in found.items() for each in judge.verdicts(path, leaf)]
    verdicts += judge.assumed()
    verdicts = _checked(_one_value_each(verdicts), root)
    return Translation(components, _linked(_named_as_written(verdicts, flat)))


def rules_of(components: Mapping[str, str], registry: Registry) -> list[ImportRule]:
    """What components say of their keys, by section. An env's rules are for its side."""
    found: list[ImportRule] = []
    for slot in SLOTS:
        if slot.section not in components:
            continue
        target = registry.get(slot.kind, components[slot.section]).spec.imports
        rules = load_target(target) if target is not None else ()
        if slot.kind == "env":
            side = slot.section.rpartition(".")[2]
            rules = [_on_side(rule, side) for rule in rules]
        found += rules
    return found


def _on_side(rule: ImportRule, side: str) -> ImportRule:
    ours = rule.ours and rule.ours.replace("env.*.", f"env.{side}.")
    return replace(rule, theirs=rule.theirs.replace("env.*.", f"env.{side}."), ours=ours)


def _as_actor(found: dict[str, Leaf]) -> dict[str, Leaf]:
    """A file for evaluation has its model below `rollout.model`: read as `actor.model`."""
    if any(path.startswith(MODEL) for path in found):
        return found
    return {
        MODEL + path.removeprefix(ACTING) if path.startswith(ACTING) else path: leaf
        for path, leaf in found.items()
    }


def _named_as_written(verdicts: list[Verdict], flat: Mapping[str, Leaf]) -> list[Verdict]:
    """Keys of `rollout.model` under their own names again."""
    if any(path.startswith(MODEL) for path in flat):
        return verdicts
    return [
        replace(each, theirs=ACTING + each.theirs.removeprefix(MODEL))
        if each.theirs.startswith(MODEL)
        else each
        for each in verdicts
    ]


def _checked(verdicts: Sequence[Verdict], root: RunConfig) -> list[Verdict]:
    """A value that its key here would refuse is for the user to decide; so is a path to something
    that is not on this machine."""
    keys = {key.path: key for key in schema_tree.walk(root)}
    refused = _refused([each for each in verdicts if each.settles], root)

    def checked(verdict: Verdict) -> Verdict:
        if not verdict.settles:
            return verdict
        said = refused.get(id(verdict)) or _unfit(verdict.new, keys[verdict.settles])
        return replace(verdict, word="choose", says=said) if said else verdict

    return [checked(each) for each in verdicts]


def _refused(verdicts: Sequence[Verdict], root: RunConfig) -> dict[int, str]:
    """The error of each value, by the identity of its verdict, that its key has no type for. Halves
    are tried by themselves until the culprits are found."""
    try:
        values: dict[str, Any] = {}
        merge(values, nested({each.settles: each.new for each in verdicts}), root)
        bind(values, deepcopy(root))
    except ConfigError as error:
        if len(verdicts) == 1:
            return {id(verdicts[0]): error.message}
        half = len(verdicts) // 2
        return {**_refused(verdicts[:half], root), **_refused(verdicts[half:], root)}
    return {}


def _unfit(value: Any, key: schema_tree.Key) -> str:
    """Why a value of the right type can't be taken; empty if it can."""
    numbers = [n for n in schema_tree.values_of(value) if isinstance(n, (int, float))]
    if not isinstance(value, bool) and any(n not in key.range for n in numbers):
        return f"{key.path} must be {key.range}"
    read = key.place in ("read", "checkpoint", "path") and isinstance(value, str)
    if read and not Path(value).expanduser().exists():
        return f"not on this machine: give {key.path}=PATH"
    return ""


def _one_value_each(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Of several keys that mean one of ours, the one that is called the same decides, else the
    first."""
    decides: dict[str, Verdict] = {}
    for verdict in verdicts:
        if verdict.settles:
            first = decides.setdefault(verdict.settles, verdict)
            if verdict.theirs == verdict.settles != first.theirs:
                decides[verdict.settles] = verdict
    result = []
    for verdict in verdicts:
        winner = decides.get(verdict.settles, verdict)
        if winner is verdict:
            result.append(verdict)
        elif verdict.word != "assumed":
            same = winner.new == verdict.new
            word: Word = "dropped" if same else "choose"
            says = f"{winner.theirs} {'says the same' if same else 'decides'}"
            result.append(replace(verdict, word=word, ours=None, new=None, says=says))
    return result


def _linked(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """A value that was written as that of other keys stays so where these are taken as they are."""
    taken = {each.theirs for each in verdicts if each.word == "taken"}
    return [
        replace(each, new=each.raw)
        if each.word == "taken" and _refers_to(each.raw, taken)
        else each
        for each in verdicts
    ]


def _refers_to(raw: Any, taken: set[str]) -> bool:
    if not isinstance(raw, str) or "${" not in raw:
        return False
    named = [part.partition("}")[0] for part in raw.split("${")[1:]]
    return all(name in taken for name in named)
