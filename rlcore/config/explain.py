"""Print `--help KEY`: sections and keys with type, default and meaning, from the schema. Light.

Without choices the help shows the keys that every component of a kind has. To find keys of a
single component, all installed ones are searched; each is labelled with the choice that adds it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rlcore.config import schema_tree
from rlcore.config.bind import SLOTS, default_settings, unknown
from rlcore.config.catalog import EXPERIMENT, Catalog
from rlcore.config.recipes import absent_parts, installing
from rlcore.config.schema import Range, RunConfig
from rlcore.config.schema_tree import Key
from rlcore.contracts.errors import UserError
from rlcore.terminal.text import written

GROUPS = ("env", "model", "algorithm", EXPERIMENT)


@dataclass(frozen=True)
class Brought:
    """A key, and the choice that brings it ("" if it is always there)."""

    key: Key
    by: str = ""


def overview(catalog: Catalog, root: RunConfig) -> str:
    """Groups with their options, then all keys of `root`."""
    lines = ["Groups (group=option):"]
    for group in GROUPS:
        usable, *others = _options(catalog, group)
        lines += [f"  {group:<12}{usable}", *(f"  {'':<12}{line}" for line in others)]
    lines.append("  env/train, env/eval choose one side of env")
    lines += ["", "Keys (key=value):", *_lines(Brought(key) for key in schema_tree.walk(root))]
    lines += ["", "--help KEY explains one key or section, also those only one component has."]
    return "\n".join(lines)


def explain(catalog: Catalog, root: RunConfig, path: str) -> str:
    """One key, or a section and what is below it.

    Args:
        catalog: groups and plugins.
        root: the tree that is shown: the defaults, or a composed configuration.
        path: dotted path of the key, or the name of a group.

    Raises:
        ConfigError: the key does not exist.
    """
    if path in catalog.groups and path not in schema_tree.paths(root):
        return "\n".join(_options(catalog, path, f"{path}=NAME, one of: "))
    keys = [Brought(key) for key in schema_tree.walk(root)]
    found = _below(keys, path)
    if not found or found[0].key.section:
        found += [each for each in _below(_component_keys(catalog), path) if each not in found]
        found = _first_of_each(found)
    if not found:
        raise unknown(path, root, catalog.options(EXPERIMENT))
    return "\n".join(_lines(found))


def _options(catalog: Catalog, group: str, heading: str = "") -> list[str]:
    """The options of a group; those that need what is not installed in lines of their own."""
    usable, others = [], dict[str, list[str]]()
    for option in catalog.options(group):
        reason = _why_unusable(catalog, group, option)
        if reason is None:
            usable.append(option)
        else:
            others.setdefault(reason, []).append(option)
    return [
        heading + (", ".join(usable) or "none installed"),
        *(f"{reason}: {', '.join(names)}" for reason, names in sorted(others.items())),
    ]


def _why_unusable(catalog: Catalog, group: str, option: str) -> str | None:
    """What keeps a recipe from being run here; None if nothing does. A damaged file is named when
    it is asked for."""
    try:
        parts = absent_parts(catalog, group, option)
    except UserError:
        return None
    if not parts:
        return None
    return f"not installed ({installing(catalog, parts) or ', '.join(map('='.join, parts))})"


def _below(keys: Iterable[Brought], path: str) -> list[Brought]:
    return [b for b in keys if b.key.path == path or b.key.path.startswith(f"{path}.")]


def _component_keys(catalog: Catalog) -> list[Brought]:
    """Keys of every installed component; one whose settings don't load is left out here, and
    named by `rlcore plugins` or when it is chosen."""
    found = []
    for slot in SLOTS:
        for name in catalog.registry.names(slot.kind):
            try:
                section = default_settings(catalog.registry, slot, name)
            except UserError:
                continue
            choice = f"{slot.kind} {name}"
            found += [Brought(key, choice) for key in schema_tree.walk(section, slot.section)]
    return found


def _first_of_each(found: list[Brought]) -> list[Brought]:
    """One entry a path: the generic one, or all components that bring it."""
    by_path: dict[str, Brought] = {}
    for each in found:
        known = by_path.setdefault(each.key.path, each)
        if known is not each and known.by and each.by not in known.by:
            by_path[each.key.path] = Brought(known.key, f"{known.by}, {each.by}")
    return list(by_path.values())


def _lines(keys: Iterable[Brought]) -> list[str]:
    """Keys under the headings of their sections; a single key has no heading."""
    headings: dict[str, str] = {}
    entries: dict[str, list[str]] = {}
    for brought in keys:
        key = brought.key
        label = f"  ({brought.by})" if brought.by else ""
        if key.section:
            headings[key.path] = f"{key.path}: {key.help}{label}"
            entries.setdefault(key.path, [])
            continue
        choices = f" [{' | '.join(key.choices)}]" if key.choices else ""
        if key.range != Range():
            choices = f" [{key.range}]"
        entries.setdefault(key.path.rpartition(".")[0], []).extend(
            [
                f"  {key.path}: {key.type} = {written(key.value)}{choices}{label}",
                f"      {key.help}",
            ]
        )
    lines: list[str] = []
    for section, texts in entries.items():
        heading = [headings[section]] if section in headings else []
        lines += [*([""] if lines else []), *heading, *texts]
    return lines
