"""Choose and sort rows: `--where 'algorithm.gamma>0.95'`, `--sort -after`. Nothing is evaluated:
a condition is a key, a sign and a value."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rlcore.config.schema_tree import find, leaves
from rlcore.contracts.errors import ConfigError, choosing
from rlcore.terminal.text import written
from rlcore_tools.runs.row import COLUMNS, Row

_CONDITION = re.compile(r"\s*([^\s=!<>]+)\s*(!=|>=|<=|==|=|>|<)\s*(.*?)\s*", re.DOTALL)
_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le,
}  # fmt: skip


@dataclass(frozen=True)
class Condition:
    """What a run must be to be shown.

    Attributes:
        key: a column, or a key of the configuration.
        sign: how the run's value is compared.
        value: with what, as it is written on a command line: `0.95`, `true`, `null`, `[1, 2]`.
    """

    key: str
    sign: str
    value: str

    @classmethod
    def read(cls, text: str) -> Condition:
        """The condition of a text.

        Raises:
            ConfigError: it is none.
        """
        found = _CONDITION.fullmatch(text)
        if found is None:
            raise ConfigError(
                f"--where {text!r} is no condition: KEY SIGN VALUE, with one of = != > >= < <=",
                hint="--where 'algorithm.gamma>0.95' --where state=finished",
            )
        return cls(found[1], found[2], found[3].strip("'\""))

    def holds(self, row: Row) -> bool:
        """Whether a run is so. A run without the key is not, unless the value is null; numbers are
        compared with numbers, texts with texts."""
        ours, theirs = row.value(self.key), self.value
        if self.sign not in _ORDERS:
            return _same(ours, theirs) == (self.sign != "!=")
        both = _number(ours), _number(theirs)
        if None not in both:
            return _ORDERS[self.sign](*both)
        return isinstance(ours, str) and _ORDERS[self.sign](ours, theirs)


def chosen(rows: Sequence[Row], conditions: Sequence[Condition]) -> list[Row]:
    """The rows for which all conditions hold.

    Raises:
        ConfigError: no run has a key.
    """
    for condition in conditions:
        _require(condition.key, rows)
    return [row for row in rows if all(condition.holds(row) for condition in conditions)]


def ordered(rows: Sequence[Row], key: str) -> list[Row]:
    """Rows by a column or key, from low to high, with `-` before it from high to low; those without
    it are the last.

    Raises:
        ConfigError: no run has the key.
    """
    name = key.removeprefix("-")
    _require(name, rows)
    known = [row for row in rows if row.value(name) is not None]
    rest = [row for row in rows if row.value(name) is None]
    return sorted(known, key=lambda row: _rank(row.value(name)), reverse=key != name) + rest


def _require(key: str, rows: Sequence[Row]) -> None:
    """Refuse a key that no run has."""
    known = (find(row.config, key, COLUMNS) is not COLUMNS for row in rows)  # null is a value
    if not rows or key in COLUMNS or any(known):
        return
    keys = {path for row in rows[:1] for path, _ in leaves(row.config)}
    raise ConfigError(
        f"no run here has {key!r}{choosing(key, {*COLUMNS, *keys})}",
        hint="rlcore runs show RUN --json lists the columns; config.yaml in its folder, the keys",
    )


def _number(value: Any) -> float | None:
    """Also of a text, as YAML takes `1e-5` for one."""
    if isinstance(value, bool):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _same(ours: Any, theirs: str) -> bool:
    both = _number(ours), _number(theirs)
    return both[0] == both[1] if None not in both else written(ours) == theirs


def _rank(value: Any) -> tuple[int, Any]:
    number = _number(value)
    return (1, written(value)) if number is None else (0, number)
