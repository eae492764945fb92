"""Write a translation as a recipe, and as lines to read."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path

from omegaconf import OmegaConf

from rlcore.config.bind import SLOTS
from rlcore.config.catalog import EXPERIMENT
from rlcore.config.choices import SIDES_OF
from rlcore.config.recipes import GLOBAL
from rlcore.contracts.errors import ConfigError
from rlcore.terminal.text import format_value
from rlcore_tools.rlinf.components import nested
from rlcore_tools.rlinf.translate import Translation
from rlcore_tools.rlinf.verdicts import WORDS, Verdict
from rlcore_tools.text import cut

SHOWN = 120  # characters of a value in a line
WIDTH = 100


def place(file: Path, out: str | None) -> Path:
    """Where the recipe goes: into a folder called `experiment`, where `--config-dir` finds it.

    Raises:
        ConfigError: a name that is none, or a file that is there already.
    """
    wanted = Path(EXPERIMENT, f"{file.stem}.yaml") if out is None else Path(out).expanduser()
    if wanted.suffix != ".yaml":
        raise ConfigError(f"--out must be a file NAME.yaml, got {out!r}")
    if wanted.parent.name != EXPERIMENT:
        wanted = wanted.parent / EXPERIMENT / wanted.name
    if wanted.exists():
        raise ConfigError(f"{wanted} exists already", hint="--out OTHER.yaml, or remove it")
    return wanted


def text(file: Path, translation: Translation) -> str:
    """The recipe."""
    groups = {slot.group: translation.components.get(slot.section) for slot in SLOTS}
    train, evaluation = SIDES_OF["env"]
    if groups[train] == groups[evaluation]:
        groups = {"env": groups[train], **groups, train: None, evaluation: None}
    defaults = "".join(f"  - override /{group}: {name}\n" for group, name in groups.items() if name)
    open_ = [each for each in translation.verdicts if each.word == "choose"]
    notes = [f"From {file.name} of RLinf, by rlcore config import."]
    if open_:
        notes += ["To decide, as there is no counterpart:"]
        notes += [f"  {_key(each)}" + (f": {each.says}" if each.says else "") for each in open_]
    head = "".join(
        textwrap.fill(
            note, WIDTH, initial_indent="# ", subsequent_indent="#     ",
            break_long_words=False, break_on_hyphens=False,
        ) + "\n"
        for note in notes
    )  # fmt: skip
    body = OmegaConf.to_yaml(OmegaConf.create(nested(translation.values())))
    return f"{GLOBAL}\n{head}defaults:\n{defaults}\n{body}"


def lines(translation: Translation) -> Iterator[str]:
    """What became of each key, by kind."""
    for word, meaning in WORDS.items():
        found = [each for each in translation.verdicts if each.word == word]
        if found:
            yield f"{word} ({len(found)}): {meaning}"
            yield from (f"  {_line(each)}" for each in found)


def _line(verdict: Verdict) -> str:
    says = f": {verdict.says}" if verdict.says and verdict.word != "taken" else ""
    if verdict.word in ("renamed", "assumed"):
        arrow = f"{_key(verdict)} -> " if verdict.theirs else ""
        return f"{arrow}{verdict.ours}={_short(verdict.new)}{says}"
    return f"{_key(verdict)}{says}"


def _key(verdict: Verdict) -> str:
    return f"{verdict.theirs}={_short(verdict.value)}" if verdict.theirs else f"{verdict.ours}"


def _short(value: object) -> str:
    return cut(format_value(value), SHOWN)
