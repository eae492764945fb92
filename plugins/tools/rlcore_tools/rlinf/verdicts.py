"""Decide what becomes of each key: by a rule, else an old spelling, else a key of rlcore."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, Literal

from rlcore.config import schema_tree
from rlcore.config.schema import RunConfig
from rlcore.config.warning import ConfigWarning
from rlcore.contracts.errors import ConfigError
from rlcore_tools.import_rules import UNSAID, Foreign, ImportRule
from rlcore_tools.rlinf.components import ACTING, MODEL, nested
from rlcore_tools.rlinf.old_names import CHUNK_STEPS, modernise, move
from rlcore_tools.rlinf.reading import MISSING, Leaf

Word = Literal["taken", "renamed", "assumed", "dropped", "choose"]
WORDS: dict[Word, str] = {
    "taken": "the same key here",
    "renamed": "another key or value here",
    "assumed": "not in the file: what RLinf does then",
    "dropped": "no such key here, and nothing is lost",
    "choose": "no counterpart: decide yourself",
}


@dataclass(frozen=True)
class Verdict:
    """What becomes of one key.

    Attributes:
        word: in short.
        theirs, value: the key and its value there; "" where the file has no such key.
        ours, new: the key and its value here; None where there is none.
        says: why, or how ours differs; may be empty.
        raw: as it was written there, with interpolations.
    """

    word: Word
    theirs: str
    value: Any
    ours: str | None = None
    new: Any = None
    says: str = ""
    raw: Any = None

    @property
    def settles(self) -> str:
        """The key of ours that it gives a value; empty if it gives none."""
        return "" if self.ours is None or self.word in ("dropped", "choose") else self.ours


SAMPLES = "do_sample"
"""With it, a temperature says nothing about whether evaluations sample."""


class Judge:
    """Decides what becomes of each key of one file."""

    def __init__(self, foreign: Foreign, root: RunConfig, rules: Sequence[ImportRule]) -> None:
        self.foreign, self.root, self.rules = foreign, root, rules
        self.known = {key.path for key in schema_tree.walk(root) if not key.section}

    def verdicts(self, path: str, leaf: Leaf) -> list[Verdict]:
        """What becomes of a key of the file: one verdict, or more where it means several keys."""
        if leaf.problem:
            return [Verdict("choose", path, leaf.raw, says=leaf.problem)]
        if leaf.value == MISSING:
            return [Verdict("choose", path, leaf.value, says="the file leaves it open")]
        if path.startswith(ACTING):
            return [self._acting(path, leaf)]
        for rule in self.rules:
            star = rule.match(path)
            if star is not None:
                return [self._by_rule(rule, path, leaf.value, star)]
        return self._by_name(path, leaf)

    def assumed(self) -> Iterator[Verdict]:
        """What their code does where the file says nothing."""
        for rule in self.rules:
            if rule.ours is None or "*" in rule.ours:
                continue
            if rule.theirs and (rule.silent is UNSAID or rule.theirs in self.foreign.values):
                continue
            verdict = self._by_rule(rule, rule.theirs, rule.silent if rule.theirs else None, "")
            if verdict.word != "dropped":
                word: Word = "choose" if verdict.word == "choose" else "assumed"
                yield replace(verdict, word=word, theirs="", value=None)

    def _by_rule(self, rule: ImportRule, path: str, value: Any, star: str) -> Verdict:
        if rule.ours is None:
            kept = rule.only is not None and value not in rule.only
            return Verdict("choose" if kept else "dropped", path, value, says=rule.says)
        ours = rule.ours.replace("*", star)
        try:
            new = value if rule.value is None else rule.value(value, self.foreign)
        except ValueError as error:
            return Verdict("choose", path, value, ours, says=str(error))
        if new is UNSAID:
            return Verdict("dropped", path, value, says=rule.says)
        same = path == ours and new == value
        return Verdict("taken" if same else "renamed", path, value, ours, new, rule.says)

    def _acting(self, path: str, leaf: Leaf) -> Verdict:
        """A key of the policy that acts, beside those of the one that is trained."""
        twin = MODEL + path.removeprefix(ACTING)
        if leaf.value == self.foreign.get(twin, leaf.value):
            says = "the policy that acts is the one that is trained"
            return Verdict("dropped", path, leaf.value, says=says)
        if path in self.known:
            return Verdict("taken", path, leaf.value, path, leaf.value)
        return Verdict("choose", path, leaf.value, says=f"{twin} has another value: it decides")

    def _by_name(self, path: str, leaf: Leaf) -> list[Verdict]:
        """A key without a rule."""
        if path in self.known:
            return [Verdict("taken", path, leaf.value, path, leaf.value, raw=leaf.raw)]
        if path == CHUNK_STEPS:
            return [Verdict("dropped", path, leaf.value, says="it follows from other keys")]
        try:
            now = list(schema_tree.leaves(self._modern(path, leaf.value)))
        except ConfigError as error:
            return [
                Verdict("choose", path, leaf.value, says=error.message.removeprefix(f"{path} "))
            ]
        if not now:
            return [Verdict("dropped", path, leaf.value, says="here it has no other value")]
        if all(ours in self.known for ours, _ in now):
            return [Verdict("renamed", path, leaf.value, ours, new) for ours, new in now]
        if leaf.value is None:
            return [Verdict("dropped", path, None, says="it is null")]
        near = get_close_matches(path, self.known, n=1, cutoff=0.75)
        says = "rlcore has no such key" + (f"; is {near[0]} meant?" if near else "")
        return [Verdict("choose", path, leaf.value, says=says)]

    def _modern(self, path: str, value: Any) -> dict[str, Any]:
        """One key without old spellings."""
        samples = any(each.rpartition(".")[2] == SAMPLES for each in self.foreign.values)
        told = [{SAMPLES: True}] if samples else []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConfigWarning)
            modern = modernise([nested({path: deepcopy(value)}), *told])[0]
            move(modern, self.root)
            return modern
