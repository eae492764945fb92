"""Walk the schema as a tree: every key with its dotted path, type, default and help. Light."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # a tree of plain values needs none of it
    from rlcore.config.schema import Range, RunConfig
    from rlcore.config.schema.keys import Door, Fixed, Place, When


@dataclass(frozen=True)
class Key:
    """One key of the configuration.

    Attributes:
        path: dotted, from the root.
        type: as written in the dataclass, e.g. "int | None"; the class name for a section.
        value: its default, or its value where the tree is that of a composed configuration.
        help: its sentence; for a section the first line of the class's docstring.
        choices: the values it may take; empty if it is not an enumeration.
        range: the numbers it may take, if it holds numbers.
        door: of a key that lets code in, how.
        section: whether it holds keys of its own.
        place: of a path, what is done with it.
        default: of the schema, whatever its value is.
        when: other keys that decide whether it is read.
        fixed: whether a resumed run may have another value.
    """

    path: str
    type: str
    value: Any
    help: str
    choices: tuple[str, ...]
    range: Range
    section: bool
    place: Place | None
    door: Door | None
    default: Any
    when: tuple[When, ...]
    fixed: Fixed


def is_section(value: Any) -> bool:
    """Return whether a value holds keys of its own: any dataclass does, also a plugin's plain
    one."""
    return is_dataclass(value) and not isinstance(value, type)


def walk(section: Any, path: str = "", fixed: Fixed = "no") -> Iterator[Key]:
    """Yield all keys below a section, sections before their keys.

    Args:
        fixed: of its keys that don't say so; sections in it begin anew.
    """
    for field in fields(section):
        value = getattr(section, field.name)
        here = join(path, field.name)
        yield _key(field, value, here, fixed)
        if is_section(value):
            yield from walk(value, here, field.metadata.get("fixed") or "no")


def value_of(root: RunConfig, path: str) -> Any:
    """Return the value at a dotted path."""
    value: Any = root
    for name in path.split("."):
        value = getattr(value, name)
    return value


def find(values: Any, path: str, default: Any = None) -> Any:
    """Find what stands at a dotted path of nested mappings; `default` where nothing does."""
    for name in path.split("."):
        if not isinstance(values, Mapping) or name not in values:
            return default
        values = values[name]
    return values


def leaves(values: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (dotted path, value) of all values of nested mappings; an empty mapping is a value."""
    for name, value in values.items():
        here = join(path, str(name))
        if isinstance(value, Mapping) and value:
            yield from leaves(value, here)
        else:
            yield here, value


def put(root: RunConfig, path: str, value: Any) -> None:
    """Set the value at a dotted path of a configuration that is not frozen yet."""
    section, _, name = path.rpartition(".")
    setattr(value_of(root, section), name, value)


def values_of(value: Any) -> list[Any]:
    """Return the single values of a key: those of a list or mapping, or the one it is."""
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else [value]


def paths(root: RunConfig) -> list[str]:
    """Return the dotted paths of all keys."""
    return [key.path for key in walk(root)]


def join(path: str, name: str) -> str:
    """Join `a.b` and `c` -> `a.b.c`; the root's path is empty."""
    return f"{path}.{name}" if path else name


def type_of(section: Any, name: str) -> str:
    """Return the type of a key of a section, as text. That of an untyped one is "Any": its value is
    free, and a mapping there is a value as a whole."""
    (field,) = (field for field in fields(section) if field.name == name)
    return type_name(field)


def type_name(field: Field[Any]) -> str:
    """Return the annotation as text."""
    return field.type if isinstance(field.type, str) else inspect.formatannotation(field.type)


def _key(field: Field[Any], value: Any, path: str, fixed: Fixed) -> Key:
    from rlcore.config.schema import Range

    section = is_section(value)
    doc = (inspect.getdoc(type(value)) or "").split("\n\n")[0] if section else ""
    return Key(
        path=path,
        type=type(value).__name__ if section else type_name(field),
        value=value,
        help=" ".join(doc.split()) if section else field.metadata.get("help", ""),
        choices=field.metadata.get("choices", ()),
        range=field.metadata.get("range", Range()),
        section=section,
        place=field.metadata.get("place"),
        door=field.metadata.get("door"),
        default=None if section else _default(field),
        when=field.metadata.get("when", ()),
        fixed=field.metadata.get("fixed") or fixed,
    )


def _default(field: Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return None if field.default is MISSING else field.default
