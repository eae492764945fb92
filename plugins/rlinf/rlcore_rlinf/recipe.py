"""Format a translation as a recipe, and as lines for the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path

from omegaconf import OmegaConf

from rlcore.config.bind import SLOTS
from rlcore.config.catalog import EXPERIMENT, SIDES
from rlcore.config.recipes import GLOBAL_PACKAGE
from rlcore.contracts.errors import ConfigError
from rlcore.utils.text import format_value
from rlcore_rlinf.components import nested
from rlcore_rlinf.translate import Translation
from rlcore_rlinf.verdicts import WORDS, Verdict

VALUE_WIDTH = 120
"""Characters of a value in a line."""
WIDTH = 100


def place(file: Path, out: str | None) -> Path:
    """Return the path of the recipe: in a folder `experiment`, where `--config-dir` finds it.

    Args:
        file: the file of RLinf.
        out: the user's `--out`; None: `experiment/NAME.yaml` with the file's name.

    Raises:
        ConfigError: `out` is no file NAME.yaml, or the recipe exists already.
    """
    path = Path(EXPERIMENT, f"{file.stem}.yaml") if out is None else Path(out).expanduser()
    if path.suffix != ".yaml":
        raise ConfigError(f"--out must be a file NAME.yaml, got {out!r}")
    if path.parent.name != EXPERIMENT:
        path = path.parent / EXPERIMENT / path.name
    if path.exists():
        raise ConfigError(f"{path} exists already", hint="--out OTHER.yaml, or remove it")
    return path


def text(file: Path, translation: Translation) -> str:
    """Return the text of the recipe."""
    groups = {slot.group: translation.components.get(slot.section) for slot in SLOTS}
    train, evaluation = (f"env/{side}" for side in SIDES)
    if groups[train] == groups[evaluation]:
        groups = {"env": groups[train], **groups, train: None, evaluation: None}
    defaults = "".join(f"  - override /{group}: {name}\n" for group, name in groups.items() if name)
    undecided = [verdict for verdict in translation.verdicts if verdict.word == "choose"]
    notes = [f"From {file.name} of RLinf, by rlcore config import."]
    if undecided:
        notes.append("To decide, as there is no counterpart:")
        notes += [f"  {_without_counterpart(verdict)}" for verdict in undecided]
    comment = textwrap.TextWrapper(
        WIDTH,
        initial_indent="# ",
        subsequent_indent="#     ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    head = "".join(f"{comment.fill(note)}\n" for note in notes)
    body = OmegaConf.to_yaml(OmegaConf.create(nested(translation.values())))
    return f"{GLOBAL_PACKAGE}\n{head}defaults:\n{defaults}\n{body}"


def lines(translation: Translation) -> Iterator[str]:
    """Yield lines that list the keys, grouped by verdict."""
    for word, meaning in WORDS.items():
        verdicts = [verdict for verdict in translation.verdicts if verdict.word == word]
        if verdicts:
            yield f"{word} ({len(verdicts)}): {meaning}"
            yield from (f"  {_line(verdict)}" for verdict in verdicts)


def _line(verdict: Verdict) -> str:
    if verdict.word == "taken":
        return _key(verdict)
    if verdict.word not in ("renamed", "assumed"):
        return _without_counterpart(verdict)
    arrow = f"{_key(verdict)} -> " if verdict.theirs else ""
    return f"{arrow}{verdict.ours}={_shortened(verdict.new)}{_note(verdict)}"


def _without_counterpart(verdict: Verdict) -> str:
    return f"{_key(verdict)}{_note(verdict)}"


def _note(verdict: Verdict) -> str:
    return f": {verdict.note}" if verdict.note else ""


def _key(verdict: Verdict) -> str:
    return f"{verdict.theirs}={_shortened(verdict.value)}" if verdict.theirs else f"{verdict.ours}"


def _shortened(value: object) -> str:
    formatted = format_value(value)
    return formatted if len(formatted) <= VALUE_WIDTH else f"{formatted[: VALUE_WIDTH - 3]}..."
