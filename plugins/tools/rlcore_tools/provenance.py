"""Explain a key: its meaning, its default, and the file or override that set its value.

Later sources override earlier ones:

defaults of the schema < files of the chosen options < the recipe < the command line
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from rlcore.api import compose
from rlcore.config import schema_tree
from rlcore.config.bind import unknown_key
from rlcore.config.catalog import EXPERIMENT, SIDES, Catalog
from rlcore.config.explain import explain
from rlcore.config.overrides import overridden_keys
from rlcore.config.schema import RunConfig
from rlcore.plugins.registry import load_plugins
from rlcore.utils.text import format_value


def lines_on(path: str, words: Sequence[str], config_dirs: Sequence[str] = ()) -> Iterator[str]:
    """Yield lines that explain a key of the configuration composed from these words.

    Raises:
        ConfigError: there is no such key, or the words can't be composed.
    """
    catalog = Catalog(load_plugins(), config_dirs)
    root = compose(None, *words, config_dirs=config_dirs, require=(), draft=True)
    key = next((key for key in schema_tree.walk(root) if key.path == path), None)
    if key is None and not words:  # a key of a component that is not chosen
        yield explain(catalog, root, path)
        return
    if key is None:
        raise unknown_key(path, root, catalog.options(EXPERIMENT))
    yield explain(catalog, root, path)
    if key.section:
        return
    for when in key.when:
        values = " or ".join(map(format_value, when.values or when.unless))
        yield f"read only where {when.other(path)} is {'' if when.values else 'not '}{values}"
    yield f"default: {format_value(key.default)}"
    sources = [*_set_by_files(root, path), *_set_by_overrides(words, path)]
    for place, value in sources:
        yield f"set by {place}: {format_value(value)}"
    last_value = sources[-1][1] if sources else key.default
    if last_value != key.value and format_value(last_value) != format_value(key.value):
        final = format_value(key.value)
        yield f"then derived from other keys, or reset as its component was replaced: {final}"


def _set_by_overrides(words: Sequence[str], path: str) -> Iterator[tuple[str, Any]]:
    patterns = {f"env.*{path.removeprefix(f'env.{side}')}" for side in SIDES}
    for word in words:
        if path in overridden_keys([word]) or word.lstrip("+").partition("=")[0] in patterns:
            yield f"the override {word}", yaml.safe_load(word.partition("=")[2] or "null")


def _set_by_files(root: RunConfig, path: str) -> Iterator[tuple[str, Any]]:
    """Yield ("GROUP=NAME, FILE:LINE", value) for each file that sets a key, in override order.

    A number or boolean is shown as the file spells it.
    """
    for layer in root.recipe.sources.files.layers if root.recipe.sources else ():
        value = schema_tree.find(layer.values, path, schema_tree)
        if value is schema_tree or layer.file is None:
            continue
        key = path.removeprefix(f"{layer.package}.")
        side = layer.group.rpartition("/")[2]
        line = _line_of(layer.file, f"_{side}_.{key}") or _line_of(layer.file, key)
        if line is not None:  # else the option's name implies the value
            yield f"{layer.group}={layer.option}, {_display_path(layer.file)}:{line}", value


def _display_path(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _line_of(file: Path, path: str) -> int | None:
    """Return the number of the line of a YAML file that sets a dotted path; None if none does."""
    node = yaml.compose(file.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    line = None
    for name in path.split("."):
        entries = node.value if isinstance(node, yaml.MappingNode) else ()
        entry = next((entry for entry in entries if entry[0].value == name), None)
        if entry is None:
            return None
        line = entry[0].start_mark.line + 1
        node = entry[1]
    return line
