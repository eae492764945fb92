"""Sort the words of a sweep: which are Hydra's, which are the sweep's, and which go to each job.

    rlcore train quickstart -m runner.seed=0,1 hydra/launcher=joblib sweep.parallel=2
                 flags         words           hydra                 settings

A sweeper gets `words` in Hydra's own grammar, which has no star and reads a value in fewer ways
than a command line of rlcore: :func:`for_hydra` and :func:`for_job` go there and back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Override
from hydra.errors import HydraException
from omegaconf import OmegaConf

from rlcore.cli.request import HYDRA, require_heeded
from rlcore.config.catalog import BY_RECIPE, is_folder, is_override, named_recipe
from rlcore.config.overrides import BOTH, parse, quote
from rlcore.config.scalars import Scalar, holds_text, parsed
from rlcore.config.schema import RunConfig
from rlcore.config.schema_tree import leaves, walk
from rlcore.contracts.errors import CheckpointError, ConfigError, did_you_mean
from rlcore.files.atomic import write_text
from rlcore.files.damaged_files import read_mapping

SETTING = "sweep."
IN_HYDRA = "env.both."
MULTIRUN = ("-m", "--multirun")
CFG, PACKAGE = ("--cfg", "-c"), ("--package", "-p")
FOLDER = ("--config-dir", "-cd")
CONFIG_NAME = ("--config-name", "-cn")
VALUED = (*CFG, *PACKAGE, *FOLDER, *CONFIG_NAME)
"""Flags whose value may be the next word."""
SETTINGS = {
    "parallel": "hydra.launcher.parallel",
    "seeds": "hydra.sweeper.seeds",
    "objective": "",
    "split": "",
}
"""Keys below `sweep.`, and what each is short for, if it is."""
DIR, SUBDIR = "hydra.sweep.dir", "hydra.sweep.subdir"
SPLIT = ("env.eval.split", "env.both.split")
CHOOSING = ("validation", "heldout")
"""Starts that a sweeper may choose by."""
PLACE = ("runner.logger.log_path", "runner.logger.experiment_name")
FILE = "sweep.json"
ESCAPED = re.compile(r"\\([\\()\[\]{}:=, \t])")  # by Hydra, where it has taken quotes away


KEPT = ("flags", "words", "hydra", "objective", "split")
"""What a sweep's folder keeps of an order, beside the verb."""


@dataclass(frozen=True)
class Order:
    """A sweep as it was asked for.

    Attributes:
        verb: what a job is, e.g. "train".
        flags: flags of the verb and their values, a recipe or folder that is named first.
        words: `group=option`, `key=value` of the jobs, lists of values among them.
        hydra: words on Hydra itself.
        objective: entries of summary.json that a job returns, e.g. ("success_after.rate",).
        split: the starts that jobs are evaluated on, if that is said.
        typed: those of `hydra` that the user has typed, which may load code. Not kept: what is
            read back from a folder was typed by whoever made that.
    """

    verb: str
    flags: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    hydra: tuple[str, ...] = ()
    objective: tuple[str, ...] = ()
    split: tuple[str, ...] = ()
    typed: frozenset[str] = frozenset()

    @classmethod
    def read(cls, arguments: Sequence[str]) -> Order:
        """Sort the words of a command line.

        Raises:
            ConfigError: an unknown key of the sweep's, or one of Hydra that is not heeded.
        """
        verb, *rest = arguments
        sorted_: dict[str, list[str]] = {name: [] for name in KEPT}
        for before, word in zip(arguments, rest, strict=False):
            bare = word.lstrip("+~")
            if before in VALUED:
                sorted_["flags"].append(word)
                continue
            if word in MULTIRUN:
                continue
            require_heeded(word)
            if bare.startswith(HYDRA) and (bare != word or "=" in word):
                sorted_["hydra"].append(word)
            elif bare.startswith(SETTING):
                _set(sorted_, bare)
            elif is_override(word) and (sorted_["flags"] or not is_folder(word)):
                sorted_["words"].append(word)
            elif "," in word and word[0] != "-" and not is_folder(word):
                sorted_["words"].append(f"experiment={word}")
            else:
                sorted_["flags"].append(word)
        sorted_["hydra"] = for_hydra(sorted_["hydra"])
        kept = {name: tuple(words) for name, words in sorted_.items()}
        return cls(verb, **kept, typed=frozenset(kept["hydra"]))

    @property
    def only_looks(self) -> bool:
        """Whether nothing is to be started."""
        return "--dry-run" in self.flags or bool(self.values(*CFG))

    @property
    def named(self) -> str | None:
        """The recipe that all jobs are made from, by its name or its file; None where there is
        none."""
        chosen = [word.removeprefix(BY_RECIPE) for word in self.words if word.startswith(BY_RECIPE)]
        chosen += self.values(*CONFIG_NAME)
        before = ("", *self.flags)
        chosen = chosen or [
            flag
            for last, flag in zip(before, self.flags, strict=False)
            if last not in VALUED and flag[:1] != "-" and not is_folder(flag)
        ]
        return chosen[-1] if chosen else None

    @property
    def config_dirs(self) -> tuple[str, ...]:
        """The user's own folders of groups, and that of a recipe that is named by its file."""
        _, beside = named_recipe(self.named or "")
        return (*self.values(*FOLDER), *beside)

    def values(self, *names: str) -> tuple[str, ...]:
        """Values of a flag."""
        found = []
        for flag, value in zip(self.flags, (*self.flags[1:], ""), strict=False):
            name, sign, own = flag.partition("=")
            if name in names:
                found.append(own if sign else value)
        return tuple(found)

    def write(self, folder: Path) -> None:
        """Keep it in the sweep's folder."""
        kept = {"verb": self.verb, **{name: vars(self)[name] for name in KEPT}}
        write_text(folder / FILE, json.dumps(kept, indent=1) + "\n")

    @classmethod
    def of(cls, folder: Path) -> Order:
        """The one that is kept in a sweep's folder.

        Raises:
            CheckpointError: there is none, or it is damaged.
        """
        if not (folder / FILE).is_file():
            raise CheckpointError(f"{folder} is not the folder of a sweep: it has no {FILE}")
        kept = read_mapping(folder / FILE)
        try:
            (verb,) = _texts([kept.pop("verb")])
            if unknown := kept.keys() - KEPT:
                raise ValueError(f"it holds {unknown.pop()!r}")
            order = cls(verb)
            for name, words in kept.items():
                order = replace(order, **{name: _texts(words)})  # type: ignore[arg-type]  # KEPT
            for name, about_hydra in (("words", False), ("hydra", True)):
                for word in vars(order)[name]:
                    if is_about_hydra(word) is not about_hydra:
                        raise ValueError(f"{word!r:.80} stands among {name!r}")
            return order
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{folder / FILE} is damaged: {error}") from None


def with_split(words: Sequence[str], split: str) -> list[str]:
    """Words of jobs that are evaluated on these starts.

    Args:
        words: of :func:`for_hydra`.
        split: of :data:`CHOOSING`.

    Raises:
        ConfigError: the words name others.
    """
    if split not in CHOOSING:
        raise ConfigError(f"sweep.split must be {' or '.join(CHOOSING)}, got {split!r}")
    given = [word for word in words if key_of(word) in SPLIT]
    for word in given:
        if word.partition("=")[2] != split:
            raise ConfigError(
                f"{word}: this sweep chooses by what it measures on {split} starts; what is chosen "
                "by held-out starts looks better there than it is",
                hint="sweep.split=heldout, if that is what you want",
            )
    return [*words] if given else [*words, f"{SPLIT[0]}={split}"]


def listed(words: Any) -> list[str]:
    """Words that a configuration of Hydra holds; what is looked up in them later stays as it is."""
    found: Any = OmegaConf.to_container(words, resolve=False)
    return [str(word) for word in found]


def for_hydra(words: Sequence[str]) -> list[str]:
    """Words as a sweeper reads them."""
    found = []
    for word, override in zip(words, parse(words), strict=True):
        text = override.input_line or word
        found.append(text.replace(BOTH, IN_HYDRA, 1) if key_of(text).startswith(BOTH) else text)
    return found


def with_texts(words: Sequence[str], config: RunConfig) -> list[str]:
    """Words of :func:`for_hydra` with quotes round numbers and truths of keys that hold text, which
    a sweeper would write otherwise: `a=1e5,7_5` -> `a='1e5','7_5'`.

    Args:
        config: of a job, for the types of keys.
    """
    texts = {key.path for key in walk(config) if not key.section and holds_text(key.type)}
    found = []
    for word in words:
        start, sign, value = word.partition("=")
        path = key_of(word).replace(IN_HYDRA, "env.train.")
        found.append(f"{start}={_quoted(value)}" if sign and path in texts else word)
    return found


def _quoted(value: str) -> str:
    inner = re.fullmatch(r"choice\((.*)\)", value, re.DOTALL)
    if inner:
        return f"choice({_quoted(inner[1])})"
    read = parsed(value)
    if isinstance(read, Scalar):
        return quote(read.text)
    if not isinstance(read, ChoiceSweep) or not read.simple_form:
        return value
    return ",".join(
        quote(one.text) if isinstance(one, Scalar) else Override._get_value_element_as_str(one)
        for one in read.list
    )


def readable(word: str) -> str:
    """A word that a sweeper of Hydra has made of one of several values, with quotes where the
    grammar needs them; Hydra leaves them out: `a=choice("b\"c",d)` -> `a=b"c`."""
    try:
        OverridesParser.create().parse_override(word)
    except HydraException:
        key, _, value = word.partition("=")
        return f"{key}={quote(ESCAPED.sub(lambda found: found[1], value))}"
    return word


def for_job(words: Sequence[str]) -> list[str]:
    """Words of a sweeper as a command line has them."""
    found = []
    for word in words:
        if word.startswith("~"):  # a sweeper that puts a word together again adds a value
            word = word.removesuffix("=null")
        found.append(word.replace(IN_HYDRA, BOTH, 1) if key_of(word).startswith(IN_HYDRA) else word)
    return found


@dataclass(frozen=True)
class Choices:
    """What is known of the jobs before a sweeper has made them.

    Attributes:
        fixed: words that are the same in each, as they are written and as a sweeper may put them
            together again.
        first, last: the words of two jobs: the first value of each list, the last.
        count: how many jobs the lists make; 0 where that is for the sweeper to say.
    """

    fixed: frozenset[str]
    first: tuple[str, ...]
    last: tuple[str, ...]
    count: int

    @classmethod
    def of(cls, words: Sequence[str]) -> Choices:
        """Look at words of :func:`for_hydra`.

        Raises:
            ConfigError: the folder of a run is to differ between jobs.
        """
        fixed, first, last, count = set[str](), list[str](), list[str](), 1
        for word, override in zip(
            words, OverridesParser.create().parse_overrides(list(words)), strict=True
        ):
            key = override.get_key_element()
            if not override.is_sweep_override():
                fixed |= {word, f"{key}={override.get_value_element_as_str()}"}
                first.append(word)
                last.append(word)
                continue
            if key_of(key) in PLACE:
                raise ConfigError(
                    f"{word}: the runs of a sweep lie in one folder",
                    hint="hydra.sweep.dir=FOLDER, hydra.sweep.subdir='${hydra.job.num}'",
                )
            try:
                values = [readable(f"{key}={its}") for its in override.sweep_string_iterator()]
            except (HydraException, AssertionError):  # a pattern, an interval: for the sweeper
                values = []
            count *= len(values)
            first += values[:1]
            last += values[-1:]
        return cls(frozenset(fixed), tuple(first), tuple(last), count)


def flat(values: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Nested values by their whole keys; an empty mapping has none."""
    return [(key, value) for key, value in leaves(values) if not isinstance(value, Mapping)]


def is_about_hydra(word: str) -> bool:
    """Check whether a word sets, adds or deletes a key or group of Hydra itself."""
    return word.lstrip("+~").startswith(HYDRA)


def key_of(word: str) -> str:
    """The key that a word sets, adds or deletes."""
    return word.lstrip("+~").partition("=")[0]


def _set(sorted_: dict[str, list[str]], word: str) -> None:
    name, _, value = word.removeprefix(SETTING).partition("=")
    known = [SETTING + key for key in SETTINGS]
    if name not in SETTINGS:
        raise ConfigError(
            f"unknown key {SETTING + name!r}.{did_you_mean(SETTING + name, known)}",
            hint=" or ".join(f"{key}=..." for key in known),
        )
    if name == "seeds":
        value = f"[{value.strip('[]')}]"
    if SETTINGS[name]:
        sorted_["hydra"].append(f"{SETTINGS[name]}={value}")
    else:
        sorted_[name] += [part.strip() for part in value.strip("[]").split(",")]


def _texts(words: object) -> tuple[str, ...]:
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ValueError(f"{words!r:.80} is not a list of words")
    return tuple(words)
