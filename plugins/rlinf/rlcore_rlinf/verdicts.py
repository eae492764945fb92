"""Decide how each key is imported: by a rule, else a spelling of RLinf, else a key of rlcore."""

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
from rlcore_rlinf.components import ACTING, TRAINED, nested
from rlcore_rlinf.reading import MISSING, Leaf
from rlcore_rlinf.rule import UNSET, ImportRule, RLinfFile
from rlcore_rlinf.spellings import CHUNK_STEPS, move_crop, translate_spellings

Word = Literal["taken", "renamed", "assumed", "dropped", "choose"]
WORDS: dict[Word, str] = {
    "taken": "the same key and value in rlcore",
    "renamed": "another key or value in rlcore",
    "assumed": "not in the file: defaults of RLinf's code",
    "dropped": "not needed in rlcore",
    "choose": "no counterpart: decide yourself",
}
SAMPLES = "do_sample"
"""Key that decides whether evaluations sample, in place of the temperature."""


@dataclass(frozen=True)
class Verdict:
    """Result of the import of one key.

    Attributes:
        word: kind of the verdict.
        theirs: the key in the file; "" if the file has no such key.
        value: its value.
        ours: the key in rlcore; None without a counterpart.
        new: its value in rlcore.
        note: the reason, or how rlcore's key differs; may be empty.
        raw: the value as written in the file, with interpolations.
    """

    word: Word
    theirs: str
    value: Any
    ours: str | None = None
    new: Any = None
    note: str = ""
    raw: Any = None

    @property
    def sets(self) -> str:
        """The key of rlcore that the recipe sets; empty if it sets none."""
        return "" if self.ours is None or self.word in ("dropped", "choose") else self.ours


class Judge:
    """Decides how each key of one file is imported.

    Args:
        file: the file.
        root: the keys of the chosen components.
        rules: rules of these components and of any file.
    """

    def __init__(self, file: RLinfFile, root: RunConfig, rules: Sequence[ImportRule]) -> None:
        self.file = file
        self.root = root
        self.rules = rules
        self.known = {key.path for key in schema_tree.walk(root) if not key.section}

    def verdicts(self, path: str, leaf: Leaf) -> list[Verdict]:
        """Return one verdict for each key of rlcore that a key of the file sets, at least one."""
        if leaf.problem:
            return [Verdict("choose", path, leaf.raw, note=leaf.problem)]
        if leaf.value == MISSING:
            return [Verdict("choose", path, leaf.value, note="the file gives no value")]
        if path.startswith(ACTING):
            return [self._acting(path, leaf)]
        for rule in self.rules:
            star = rule.match(path)
            if star is not None:
                return [self._by_rule(rule, path, leaf.value, star)]
        return self._by_name(path, leaf)

    def assumed(self) -> Iterator[Verdict]:
        """Yield verdicts on defaults of RLinf's code that the file does not override."""
        for rule in self.rules:
            if rule.ours is None or "*" in rule.ours:
                continue
            if rule.theirs and (rule.default is UNSET or rule.theirs in self.file.values):
                continue
            value = rule.default if rule.theirs else None
            verdict = self._by_rule(rule, rule.theirs, value, "")
            if verdict.word != "dropped":
                word: Word = "choose" if verdict.word == "choose" else "assumed"
                yield replace(verdict, word=word, theirs="", value=None)

    def _by_rule(self, rule: ImportRule, path: str, value: Any, star: str) -> Verdict:
        if rule.ours is None:
            harmless = rule.only is None or value in rule.only
            return Verdict("dropped" if harmless else "choose", path, value, note=rule.note)
        ours = rule.ours.replace("*", star)
        try:
            new = value if rule.convert is None else rule.convert(value, self.file)
        except ValueError as error:
            return Verdict("choose", path, value, ours, note=str(error))
        if new is UNSET:
            return Verdict("dropped", path, value, note=rule.note)
        same = path == ours and new == value
        return Verdict("taken" if same else "renamed", path, value, ours, new, rule.note)

    def _acting(self, path: str, leaf: Leaf) -> Verdict:
        """Return the verdict on a key of the rollout's model, in a file that trains a model."""
        trained = TRAINED + path.removeprefix(ACTING)
        if leaf.value == self.file.get(trained, leaf.value):
            note = "rollouts use the trained policy"
            return Verdict("dropped", path, leaf.value, note=note)
        if path in self.known:
            return Verdict("taken", path, leaf.value, path, leaf.value)
        note = f"{trained} has another value, which is used"
        return Verdict("choose", path, leaf.value, note=note)

    def _by_name(self, path: str, leaf: Leaf) -> list[Verdict]:
        """Return the verdicts on a key without a rule."""
        if path in self.known:
            return [Verdict("taken", path, leaf.value, path, leaf.value, raw=leaf.raw)]
        if path == CHUNK_STEPS:
            return [Verdict("dropped", path, leaf.value, note="other keys determine it")]
        try:
            translated = list(schema_tree.leaves(self._translated(path, leaf.value)))
        except ConfigError as error:
            note = error.message.removeprefix(f"{path} ")
            return [Verdict("choose", path, leaf.value, note=note)]
        if not translated:
            return [Verdict("dropped", path, leaf.value, note="rlcore supports only this value")]
        if all(ours in self.known for ours, _ in translated):
            return [Verdict("renamed", path, leaf.value, ours, new) for ours, new in translated]
        if leaf.value is None:
            return [Verdict("dropped", path, None, note="its value is null")]
        near = get_close_matches(path, self.known, n=1, cutoff=0.75)
        note = "rlcore has no such key" + (f"; did you mean {near[0]}?" if near else "")
        return [Verdict("choose", path, leaf.value, note=note)]

    def _translated(self, path: str, value: Any) -> dict[str, Any]:
        """Return nested values with RLinf's spelling of one key translated."""
        layers = [nested({path: deepcopy(value)})]
        if any(key.rpartition(".")[2] == SAMPLES for key in self.file.values):
            layers.append({SAMPLES: True})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConfigWarning)
            translate_spellings(layers)
            move_crop(layers[0], self.root)
        return layers[0]
