"""Walk the schema as a tree: every key with its dotted path, type, default and help. Light."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # trees of plain values need no schema
    from rlcore.config.schema import Range, RunConfig
    from rlcore.config.schema.keys import Fixed, Place, TrustedKey, When

_TEXT = re.compile(r"(?:list\[str\]|dict\[str, str\]|str)(?: \| None)?")


@dataclass(frozen=True)
class Key:
    """One key of the configuration.

    Attributes:
        path: dotted path from the root.
        type: as written in the dataclass, e.g. "int | None"; the class name for a section.
        value: value in the tree: the default, or the value in a composed configuration.
        help: help text; for a section, the first paragraph of the docstring of its class.
        choices: all allowed values; empty: values are not limited to a list.
        range: allowed numbers, for a key that holds numbers.
        section: whether it contains keys.
        place: for a path, how it is used; None: the key holds no path.
        trusted: for a key that can load code or leak a secret, the risk; None: there is none.
        default: default in the schema; None for a section.
        when: conditions on other keys under which this key is read.
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
    trusted: TrustedKey | None
    default: Any
    when: tuple[When, ...]
    fixed: Fixed

    @property
    def is_text(self) -> bool:
        """Whether it holds a text, or several in a list or mapping; see :func:`is_text_type`."""
        return is_text_type(self.type)


def is_text_type(name: str) -> bool:
    """Check whether a type is `str`, `list[str]` or `dict[str, str]`, or one of them or None.

    Args:
        name: the annotation in the dataclass, e.g. "str | None".
    """
    return _TEXT.fullmatch(name) is not None


def is_section(value: Any) -> bool:
    """Return whether a value contains keys: any instance of a dataclass does.

    A plugin's section within its settings need not extend `Settings`.
    """
    return is_dataclass(value) and not isinstance(value, type)


def walk(section: Any, path: str = "", fixed: Fixed = "no") -> Iterator[Key]:
    """Yield all keys below a section, each section before its keys.

    Args:
        section: the section.
        path: dotted path of the section; empty for the root.
        fixed: :attr:`Key.fixed` of keys directly in the section that declare none. Sections in it
            do not inherit this value: their keys have the one that is declared for them, or "no".
    """
    for field in fields(section):
        value = getattr(section, field.name)
        key_path = join(path, field.name)
        yield _key(field, value, key_path, fixed)
        if is_section(value):
            yield from walk(value, key_path, field.metadata.get("fixed") or "no")


def value_of(root: RunConfig, path: str) -> Any:
    """Return the value at a dotted path."""
    value: Any = root
    for name in path.split("."):
        value = getattr(value, name)
    return value


def find(values: Any, path: str, default: Any = None) -> Any:
    """Return the value at a dotted path of nested mappings; `default` if there is none."""
    for name in path.split("."):
        if not isinstance(values, Mapping) or name not in values:
            return default
        values = values[name]
    return values


def leaves(values: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (dotted path, value) for all values of nested mappings; an empty mapping is a value."""
    for name, value in values.items():
        key_path = join(path, str(name))
        if isinstance(value, Mapping) and value:
            yield from leaves(value, key_path)
        else:
            yield key_path, value


def put(root: RunConfig, path: str, value: Any) -> None:
    """Set the value at a dotted path of a configuration that is not frozen yet."""
    section, _, name = path.rpartition(".")
    setattr(value_of(root, section), name, value)


def values_of(value: Any) -> list[Any]:
    """Return the values in a list or mapping; for any other value, a list of this value."""
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
    """Return the type of a section's key, as text.

    "Any" means that values are not checked; a mapping is then a value, not a section.
    """
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
        trusted=field.metadata.get("trusted"),
        default=None if section else _default(field),
        when=field.metadata.get("when", ()),
        fixed=field.metadata.get("fixed") or fixed,
    )


def _default(field: Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return None if field.default is MISSING else field.default
