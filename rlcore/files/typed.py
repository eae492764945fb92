"""Check that a value read from a file has the type that its reader expects. Light.

A JSON or YAML file may have a value of any type under any key. Readers check values with
:func:`as_type`, so that a wrong type raises an error that names the key. Values are not converted.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from rlcore.files.reading import UnreadableError

T = TypeVar("T")
NAMES: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    type(None): "null",
}
"""Names of scalar types in messages."""
SHOWN = 60  # characters of a wrong value that a message shows


class _WrongKindError(UnreadableError):
    """Error for a value whose own type is wrong, not that of an entry or field of the value.

    Attributes:
        name: name of the value.
    """

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message)
        self.name = name


def as_type(kind: type[T], value: Any, name: str = "") -> T:
    """Check a JSON or YAML value against a type, and return it.

    Args:
        kind: bool, int, float, str, `Any`, a `Literal`, a union of these, `list[X]`,
            `tuple[X, ...]`, `tuple[X, Y]`, `dict[str, X]`, `Mapping[str, X]`, or a
            dataclass with fields of these types, which is created from a mapping. An int is
            accepted for a float.
        value: the value.
        name: its path in the file ("a.b[0]"), for errors; empty for the whole file.

    Raises:
        Unreadable: the value has another type, lacks a field, or has a field that `kind` does not
            have. The message names the key; for a wrong type it names the value and the type too.
    """
    return cast(T, _checked(kind, value, name))


def _checked(kind: Any, value: Any, name: str) -> Any:
    """Return a value after checking its type: see :func:`as_type`."""
    origin = get_origin(kind)
    parts = get_args(kind)
    if kind is Any:
        return value
    if origin is Literal:
        # the type is compared too, because True == 1
        if not any(type(value) is type(literal) and value == literal for literal in parts):
            raise _wrong(kind, value, name)
        return value
    if origin in (Union, types.UnionType):
        return _union_member(kind, parts, value, name)
    if is_dataclass(kind):
        return _dataclass(kind, value, name)
    if origin in (dict, Mapping):
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
            raise _wrong(kind, value, name)
        return {key: _checked(parts[1], entry, _path(name, key)) for key, entry in value.items()}
    if origin in (list, tuple):
        return _sequence(kind, value, name)
    if kind is float and type(value) is int:
        return value
    if type(value) is not kind:
        raise _wrong(kind, value, name)
    return value


def _union_member(kind: Any, parts: tuple[Any, ...], value: Any, name: str) -> Any:
    """Return a value as the first type of a union that it has."""
    errors: list[UnreadableError] = []
    for part in parts:
        try:
            return _checked(part, value, name)
        except UnreadableError as error:
            errors.append(error)
    # An error inside the value says more than that the value has none of the types.
    nested = [
        error for error in errors if not isinstance(error, _WrongKindError) or error.name != name
    ]
    raise nested[0] if nested else _wrong(kind, value, name)


def _dataclass(kind: Any, value: Any, name: str) -> Any:
    """Create a dataclass from a mapping of its fields."""
    if not isinstance(value, Mapping):
        raise _wrong(kind, value, name)
    hints = get_type_hints(kind)
    fields_by_name = {field.name: field for field in fields(kind)}
    subject = f"{name} " if name else "it "
    for key in value:
        if key not in fields_by_name:
            raise UnreadableError(f"{subject}has the unknown key {key!r:.{SHOWN}}")
    for field in fields_by_name.values():
        has_default = field.default is not MISSING or field.default_factory is not MISSING
        if field.name not in value and not has_default:
            raise UnreadableError(f"{subject}lacks {field.name!r}")
    return kind(
        **{key: _checked(hints[key], entry, _path(name, key)) for key, entry in value.items()}
    )


def _sequence(kind: Any, value: Any, name: str) -> Any:
    """Return a list or tuple with the checked entries of a list or tuple."""
    origin = get_origin(kind)
    parts = get_args(kind)
    any_length = origin is list or parts[-1] is Ellipsis
    if not isinstance(value, list | tuple) or not (any_length or len(value) == len(parts)):
        raise _wrong(kind, value, name)
    entry_kinds = [parts[0]] * len(value) if any_length else parts
    entries = [
        _checked(entry_kind, entry, f"{name}[{index}]")
        for index, (entry_kind, entry) in enumerate(zip(entry_kinds, value, strict=True))
    ]
    return origin(entries)


def _path(name: str, key: str) -> str:
    """Return the path of an entry of a mapping."""
    return f"{name}.{key}" if name else key


def _wrong(kind: Any, value: Any, name: str) -> _WrongKindError:
    message = f"{name or 'it'} must be {_described(kind)}, got {value!r:.{SHOWN}}"
    return _WrongKindError(message, name)


def _described(kind: Any) -> str:
    """Return a description of a type for messages."""
    origin = get_origin(kind)
    parts = get_args(kind)
    if origin is Literal:
        return " or ".join(str(literal) for literal in parts)
    if origin in (Union, types.UnionType):
        return " or ".join(_described(part) for part in parts)
    if origin in (dict, Mapping) or is_dataclass(kind):
        return "a mapping of names to values"
    if origin is list or (origin is tuple and parts[-1] is Ellipsis):
        return f"a list, each entry {_described(parts[0])}"
    if origin is tuple:
        return f"a list of {len(parts)}: {', '.join(_described(part) for part in parts)}"
    return NAMES.get(kind, str(kind))
