"""Explain a key: its meaning, its default, and the file or word that set its value.

defaults of the schema < files of the chosen options < the recipe < the command line
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from rlcore.api import compose
from rlcore.config import schema_tree
from rlcore.config.bind import SLOTS, unknown
from rlcore.config.catalog import EXPERIMENT, SIDES, Catalog
from rlcore.config.choices import by_side, included
from rlcore.config.explain import explain
from rlcore.config.overrides import keys_given
from rlcore.config.recipes import read_mapping
from rlcore.plugins.registry import load_plugins
from rlcore.terminal.text import format_value

SECTIONS = {slot.group: slot.section for slot in SLOTS}
"""Section that the keys of an option's file belong to, by group; a recipe's belong to the root."""


def lines_on(path: str, words: Sequence[str], config_dirs: Sequence[str] = ()) -> Iterator[str]:
    """Yield lines that explain a key of the configuration composed from these words.

    Raises:
        ConfigError: there is no such key, or the words can't be composed.
    """
    catalog = Catalog(load_plugins(), config_dirs)
    root = compose(None, *words, config_dirs=config_dirs, require=(), draft=True)
    key = next((one for one in schema_tree.walk(root) if one.path == path), None)
    if key is None and not words:  # a key of a component that is not chosen
        yield explain(catalog, root, path)
        return
    if key is None:
        raise unknown(path, root, catalog.options(EXPERIMENT))
    yield explain(catalog, root, path)
    if key.section:
        return
    for when in key.when:
        values = " or ".join(map(format_value, when.values or when.unless))
        yield f"read only where {when.other(path)} is {'' if when.values else 'not '}{values}"
    yield f"default: {format_value(key.default)}"
    found = [*_of_files(catalog, root.recipe.choices, path), *_of_words(words, path)]
    for place, value in found:
        yield f"set by {place}: {format_value(value)}"
    last = found[-1][1] if found else key.default
    if last != key.value and format_value(last) != format_value(key.value):
        yield f"then, from other keys or as its component was exchanged: {format_value(key.value)}"


def _of_words(words: Sequence[str], path: str) -> Iterator[tuple[str, Any]]:
    both = {f"env.*{path.removeprefix(f'env.{side}')}" for side in SIDES}
    for word in words:
        if path in keys_given([word]) or word.lstrip("+").partition("=")[0] in both:
            yield f"the word {word}", yaml.safe_load(word.partition("=")[2] or "null")


def _of_files(catalog: Catalog, choices: Sequence[str], path: str) -> Iterator[tuple[str, Any]]:
    """Yield ("GROUP=NAME, FILE:LINE", value) for each file that sets a key, in override order."""
    files: dict[tuple[str, str], Path] = {}
    for word in by_side(choices):
        _gather(catalog, *word.lstrip("+").partition("=")[::2], files)
    options = {group: (name, file) for (group, name), file in files.items()}
    recipes_last = sorted(options.items(), key=lambda option: option[0] not in SECTIONS)
    for group, (name, file) in recipes_last:
        section = SECTIONS.get(group, "")
        if section and not path.startswith(f"{section}."):
            continue
        relative = path.removeprefix(f"{section}.") if section else path
        side = f"_{group.partition('/')[2]}_"
        for inside in (relative, f"{side}.{relative}"):
            value = schema_tree.find(read_mapping(file), inside, schema_tree)
            if value is not schema_tree:
                yield f"{group}={name}, {_near(file)}:{_line(file, inside)}", value


def _gather(catalog: Catalog, group: str, name: str, files: dict[tuple[str, str], Path]) -> None:
    """Add the files that an option includes to `files`, then its own file.

    A file that is already there moves to the end, since later files override earlier ones.
    """
    file = catalog.file(group, name) if group in catalog.groups else None
    if file is None:
        return
    for inner in included(file, group, read_mapping(file)):
        _gather(catalog, *inner, files)
    files.pop((group, name), None)
    files[group, name] = file


def _near(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _line(file: Path, path: str) -> int:
    """Return the number of the line of a YAML file that sets a dotted path."""
    node, line = yaml.compose(file.read_text(encoding="utf-8"), Loader=yaml.SafeLoader), 0
    for name in path.split("."):
        line, node = next((k.start_mark.line + 1, v) for k, v in node.value if k.value == name)
    return line
