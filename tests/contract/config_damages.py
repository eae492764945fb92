"""Configurations with one wrong key or value, drawn from all keys that a configuration has.

Each is drawn with a seed of its own, so that every machine tries the same ones. Faults that are
no property of a single key are rows of `wrong_configs.yaml`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rlcore.config import schema_tree
from rlcore.config.bind import SLOTS, default_settings
from rlcore.config.schema import RunConfig
from rlcore.contracts.rng import generator
from rlcore.plugins.registry import load_plugins

TOY = ("env=toy", "model=toy", "algorithm=ppo")
METAWORLD = ("env=metaworld", "model=pi0_tiny", "algorithm=ppo")
QUICKSTART = ("experiment=quickstart_ppo",)
BASES = {
    TOY: ("toy", "toy"),
    METAWORLD: ("metaworld", "openpi"),
    QUICKSTART: ("metaworld", "openpi"),
}
VERBS = ("train", "eval", "sft", "collect")
RECIPE = "damaged"
# Keys whose negative values are valid.
SIGNED = {"env.train.reward_coef", "env.eval.reward_coef", "algorithm.entropy_bonus"}
WRONG_TYPES = {  # by the first word of a key's type
    "int": ("many", "1.5", "true", "[1]", "1e3x", "'7 envs'", "0.3"),
    "float": ("high", "[0.1]", "true", "1_xe-5", "'1 e-5'", "false"),
    "bool": ("perhaps", "2.5", "[true]", "7", "tru"),
    "list[str]": ("{a: 1}", "7", "true"),
    "list[float]": ("[a, b, c]", "0.5", "{a: 1}"),
    "list[int]": ("[a, b]", "12", "[1.5]"),
    "str": ("[a, b]", "{a: 1}"),
}
INTERPOLATIONS = (
    *("${nope}", "${runner.sed}", "${oc.env:NO_SUCH_VARIABLE}", "${nope:1}", "${.nope}"),
    *("${actor.optim}", "${oc.env:}", "${runner", "${oc.decode:'['}", "${..............x}"),
    "${a b}",
)


@dataclass(frozen=True)
class Damage:
    """One wrong command.

    Attributes:
        verb: the command's name.
        overrides: the arguments after the verb.
        culprits: texts that the error must contain.
        recipe: text of `experiment/damaged.yaml` in a folder given as --config-dir, or None.
    """

    verb: str
    overrides: tuple[str, ...]
    culprits: tuple[str, ...]
    recipe: str | None = None


class Draw:
    """The random choices of one damage."""

    def __init__(self, *key: int | str) -> None:
        self._random = generator("damage", *key)
        self.base: tuple[str, ...] = self.pick(list(BASES))

    def pick(self, choices: Sequence[Any]) -> Any:
        return choices[int(self._random.integers(len(choices)))]

    def key(self, matches: Callable[[schema_tree.Key], bool]) -> schema_tree.Key:
        """Return one of the base's keys that match."""
        key: schema_tree.Key = self.pick([key for key in KEYS[self.base] if matches(key)])
        return key

    def misspell(self, word: str, taken: Sequence[str]) -> str:
        """Return a misspelling of `word` that differs from all `taken` names, ignoring case."""
        used = {name.lower() for name in taken}
        while True:
            at = self.pick(range(len(word)))
            misspellings = {
                "dropped": word[:at] + word[at + 1 :],
                "doubled": word[:at] + word[at] + word[at:],
                "swapped": word[:at] + word[at : at + 2][::-1] + word[at + 2 :],
                "replaced": word[:at] + self.pick("abcdefghijklmnopqrstuvwxyz") + word[at + 1 :],
                "accented": word.replace("e", "é").replace("o", "ø"),
                "foreign": word.replace("a", "а"),  # a Cyrillic one
            }
            wrong: str = misspellings[self.pick(sorted(misspellings))]
            usable = len(wrong) > 1 and wrong[0].isalpha() and wrong[-1] != "_"
            if usable and wrong.lower() not in used:
                return wrong

    def setting(self, path: str, value: str, *culprits: str) -> Damage:
        """Return a damage that sets `path` on the command line, or in a recipe of the same base."""
        verb = self.pick(VERBS)
        if self.pick((True, True, False)):
            plus = self.pick(("", "", "", "+", "++"))
            return Damage(verb, (*self.base, f"{plus}{path}={value}"), culprits)
        names = path.split(".")
        lines = [f"{'  ' * depth}{name}:" for depth, name in enumerate(names)]
        body = "\n".join(lines) + f" {value}\n"
        return Damage(verb, (f"experiment={RECIPE}",), culprits, recipe(self.base) + body)


def recipe(base: tuple[str, ...]) -> str:
    """Return the head of a recipe that composes what `base` composes."""
    if base == QUICKSTART:
        defaults = ["- quickstart_ppo", "- _self_"]
    else:
        defaults = [f"- override /{word.replace('=', ': ')}" for word in base]
    return "\n".join(["# @package _global_", "defaults:", *(f"  {d}" for d in defaults), "", ""])


def keys_of(base: tuple[str, ...]) -> list[schema_tree.Key]:
    """Return all keys of the configuration that `base` composes."""
    env, model = BASES[base]
    names = {"env.train": env, "env.eval": env, "actor.model": model, "algorithm": "ppo"}
    root = RunConfig()
    registry = load_plugins()
    settings = {s.section: default_settings(registry, s, names[s.section]) for s in SLOTS}
    root.env.train, root.env.eval = settings["env.train"], settings["env.eval"]
    root.actor.model, root.algorithm = settings["actor.model"], settings["algorithm"]
    return list(schema_tree.walk(root))


KEYS = {base: keys_of(base) for base in BASES}


def type_of(key: schema_tree.Key) -> str:
    """Return the first type of a value, "" of a section."""
    return "" if key.section else key.type.split(" |")[0]


def as_python(text: str) -> str:
    return {"true": "True", "false": "False", "null": "None"}.get(text, text)


def misspelled_key(draw: Draw) -> Damage:
    names = draw.key(lambda key: True).path.split(".")
    level = draw.pick(range(len(names)))
    paths = [key.path.split(".") for key in KEYS[draw.base]]
    siblings = [path[level] for path in paths if path[:level] == names[:level] and path[level:]]
    wrong = ".".join([*names[:level], draw.misspell(names[level], siblings)])
    return draw.setting(".".join([wrong, *names[level + 1 :]]), "1", wrong)


def section_as_value(draw: Draw) -> Damage:
    path = draw.key(lambda key: key.section and key.path not in ("env", "algorithm")).path
    value = draw.pick(("7", "false", "fast", "[1,2]"))
    return draw.setting(path, value, path, as_python(value.split(",")[0].strip("[]")))


def value_as_section(draw: Draw) -> Damage:
    path = draw.key(lambda key: type_of(key) in ("int", "float", "bool", "str")).path
    return draw.setting(path, "{inner: 1}", path)


def wrong_type(draw: Draw) -> Damage:
    key = draw.key(lambda key: type_of(key) in WRONG_TYPES)
    value = draw.pick(WRONG_TYPES[type_of(key)])
    shown = value.strip("'").split(",")[0].strip("[]{}").split(":")[0]
    return draw.setting(key.path, value, key.path, as_python(shown))


def null(draw: Draw) -> Damage:
    path = draw.key(
        lambda key: not key.section and "None" not in key.type and key.type != "Any"
    ).path
    return draw.setting(path, "null", path)


def not_finite(draw: Draw) -> Damage:
    path = draw.key(lambda key: type_of(key) == "float").path
    value = draw.pick(("nan", "inf", "-inf", "1e999"))
    return draw.setting(path, value, path, {"1e999": "inf"}.get(value, value))


def negative(draw: Draw) -> Damage:
    key = draw.key(lambda key: type_of(key) in ("int", "float") and key.path not in SIGNED)
    value = draw.pick(("-7", "-2", "-1000") if type_of(key) == "int" else ("-0.5", "-7.0"))
    return draw.setting(key.path, value, key.path, value)


def huge(draw: Draw) -> Damage:
    path = draw.key(lambda key: type_of(key) == "int").path
    value = "1" + "0" * draw.pick(range(19, 60))
    return draw.setting(path, value, path, value[:20])


def bad_choice(draw: Draw) -> Damage:
    key = draw.key(lambda key: bool(key.choices))
    value = draw.misspell(draw.pick(key.choices), key.choices)
    return draw.setting(key.path, value, key.path, value)


def interpolation(draw: Draw) -> Damage:
    path = draw.key(lambda key: type_of(key) == key.type in ("int", "float", "str")).path
    value = draw.pick((*INTERPOLATIONS, f"${{{path}}}"))
    # components are chosen by name before references are resolved
    named = path.rpartition(".")[2] in ("env_type", "model_type", "name")
    return draw.setting(path, value, value if named else path)


def misspelled_option(draw: Draw) -> Damage:
    choices = ("env=toy", "model=pi0_tiny", "algorithm=ppo", "env/eval=metaworld", "experiment=ppo")
    group, name = draw.pick(choices).split("=")
    taken = ["toy", "metaworld", "pi0", "pi05", "pi0_tiny", "pi05_tiny", "openpi", "ppo"]
    wrong = draw.misspell(name, taken)
    words = () if group == "experiment" else TOY
    return Damage(draw.pick(VERBS), (*words, f"{group}={wrong}"), (group.split("/")[0], wrong))


def odd_text(draw: Draw) -> Damage:
    odd = draw.pick(
        ("\N{ZERO WIDTH SPACE}", "🤖", "\udcff", "ё", "\u202e", "\x07", "ﬁ", "\x1b[31m")
    )
    override, culprit = draw.pick(
        [
            (f"runner.seed={odd}", "seed"),
            (f"runner.s{odd}eed=1", "runner"),
            (f"env=t{odd}oy", "env"),
            (f"actor.model.model_path=/no/{odd}", "/no/"),
            (f'env.train.tasks=["re{odd}ach"]', "ach"),
        ]
    )
    return Damage("train", (*TOY, override), (culprit,))


KINDS: tuple[Callable[[Draw], Damage], ...] = (
    *(misspelled_key, section_as_value, value_as_section, wrong_type, null, not_finite, negative),
    *(huge, bad_choice, interpolation, misspelled_option, odd_text),
)
