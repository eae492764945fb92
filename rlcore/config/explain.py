"""Format `--help KEY`: sections and keys with type, default and meaning, from the schema. Light.

If no component is chosen, the help shows the keys that every component of a kind has. Keys that
only some components have are searched in all installed components, and each is labelled with the
components that add it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from shutil import get_terminal_size
from textwrap import fill

from rlcore.config import schema_tree
from rlcore.config.bind import SLOTS, default_settings, unknown_key
from rlcore.config.catalog import EXPERIMENT, Catalog
from rlcore.config.recipes import absent_parts, installing
from rlcore.config.schema import Range, RunConfig
from rlcore.config.schema_tree import Key
from rlcore.contracts.errors import UserError
from rlcore.utils.text import format_value

GROUPS = ("env", "model", "algorithm", EXPERIMENT)


def overview(catalog: Catalog, root: RunConfig) -> str:
    """Return a text that lists the groups with their options, and all keys of `root`."""
    lines = ["Groups (group=option):"]
    for group in GROUPS:
        usable, *others = _options(catalog, group)
        lines += [
            _wrapped(usable, f"  {group:<12}"),
            *(_wrapped(line, " " * 14) for line in others),
        ]
    lines.append("  env/train, env/eval choose one side of env")
    lines += ["", "Keys (key=value):", *_lines((key, []) for key in schema_tree.walk(root))]
    lines += ["", "--help KEY explains one key or section, also those only one component has."]
    return "\n".join(lines)


def explain(catalog: Catalog, root: RunConfig, path: str) -> str:
    """Return the help text of a key, of a section with all keys below it, or of a group.

    Args:
        catalog: groups and plugins.
        root: the tree to show: the defaults, or a composed configuration.
        path: dotted path of the key or section, or the name of a group.

    Raises:
        ConfigError: the key does not exist.
    """
    if path in catalog.groups and path not in schema_tree.paths(root):
        return "\n".join(map(_wrapped, _options(catalog, path, f"{path}=NAME, one of: ")))
    shown = {
        key.path: (key, list[str]()) for key in schema_tree.walk(root) if _is_below(key.path, path)
    }
    if not shown or next(iter(shown.values()))[0].section:
        always = {*shown}
        for choice, key in _component_keys(catalog):
            if key.path not in always and _is_below(key.path, path):
                shown.setdefault(key.path, (key, []))[1].append(choice)
    if not shown:
        raise unknown_key(path, root, catalog.options(EXPERIMENT))
    return "\n".join(_lines(shown.values()))


def _options(catalog: Catalog, group: str, heading: str = "") -> list[str]:
    """Return a line with the usable options of a group, and lines with those that need a package.

    Options that the same command would install share a line.
    """
    usable: list[str] = []
    others: dict[str, list[str]] = {}
    for option in catalog.options(group):
        parts: list[tuple[str, str]] = []
        with suppress(UserError):  # a damaged file is reported when its option is chosen
            parts = absent_parts(catalog, group, option)
        if parts:
            needs = installing(catalog, parts) or ", ".join(map("=".join, parts))
            others.setdefault(f"not installed ({needs})", []).append(option)
        else:
            usable.append(option)
    return [
        heading + (", ".join(usable) or "none installed"),
        *(f"{reason}: {', '.join(names)}" for reason, names in sorted(others.items())),
    ]


def _wrapped(line: str, head: str = "") -> str:
    """Wrap a line to the width of the terminal without breaking names; no wrapping elsewhere."""
    columns = get_terminal_size((10**6, 0)).columns
    indent = " " * (len(head) or 4)
    return fill(head + line, columns, subsequent_indent=indent, break_on_hyphens=False)


def _is_below(path: str, section: str) -> bool:
    return path == section or path.startswith(f"{section}.")


def _component_keys(catalog: Catalog) -> Iterator[tuple[str, Key]]:
    """Yield (label, key) for each key of every installed component.

    A component whose settings don't load is left out; `rlcore plugins` reports it, and so does
    choosing it.
    """
    for slot in SLOTS:
        for name in catalog.registry.names(slot.kind):
            with suppress(UserError):
                section = default_settings(catalog.registry, slot, name)
                for key in schema_tree.walk(section, slot.section):
                    yield f"{slot.kind} {name}", key


def _lines(keys: Iterable[tuple[Key, list[str]]]) -> list[str]:
    """Return lines that show keys below the headings of their sections.

    Args:
        keys: pairs of a key and the labels of the components that add it. The keys of a section
            that is not among them have no heading.
    """
    headings: dict[str, str] = {}
    entries: dict[str, list[str]] = {}
    for key, by in keys:
        label = f"  ({', '.join(by)})" if by else ""
        if key.section:
            headings[key.path] = f"{key.path}: {key.help}{label}"
            entries.setdefault(key.path, [])
            continue
        choices = f" [{' | '.join(key.choices)}]" if key.choices else ""
        if key.range != Range():
            choices = f" [{key.range}]"
        entries.setdefault(key.path.rpartition(".")[0], []).extend(
            [
                f"  {key.path}: {key.type} = {format_value(key.value)}{choices}{label}",
                f"      {key.help}",
            ]
        )
    lines: list[str] = []
    for section, texts in entries.items():
        heading = [headings[section]] if section in headings else []
        lines += [*([""] if lines else []), *heading, *texts]
    return lines
