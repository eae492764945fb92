"""Convert a file of RLinf to a recipe: `rlcore config import`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rlcore.plugins.registry import load_plugins
from rlcore_rlinf import recipe
from rlcore_rlinf.reading import read
from rlcore_rlinf.translate import translate_file


def convert(file: Path, out: str | None, folders: Sequence[Path]) -> None:
    """Write the recipe, and print the verdict on each key and the next command.

    Args:
        file: the file of RLinf.
        out: path of the recipe, see :func:`rlcore_rlinf.recipe.place`.
        folders: further folders with the groups that the file names.

    Raises:
        ConfigError: the file is damaged, it names no env, model or algorithm that is installed, or
            the recipe exists already.
        PluginError: a component that it names is installed but can't be used.
    """
    target = recipe.place(file, out)
    translation = translate_file(file, read(file, folders), load_plugins())
    text = recipe.text(file, translation)
    print(*recipe.lines(translation), sep="\n")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    verb = "train" if "algorithm" in translation.components else "eval"
    words = target.stem
    if translation.is_supervised:
        verb = "sft"
        words += " collect.path=FILE.yaml"
    print(f"\nwritten: {target}")
    print(f"next: rlcore {verb} --config-dir {target.parent.parent} {words} --dry-run")
