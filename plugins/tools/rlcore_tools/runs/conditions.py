"""Filter and sort rows: `--where 'algorithm.gamma>0.95'`, `--sort -after`.

A condition consists of a key, a comparison sign and a value; its text is never run as code.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rlcore.config.schema_tree import find, leaves
from rlcore.contracts.errors import ConfigError, choices_message
from rlcore.utils.text import format_value
from rlcore_tools.runs.row import COLUMNS, Row

_CONDITION = re.compile(r"\s*([^\s=!<>]+)\s*(!=|>=|<=|==|=|>|<)\s*(.*?)\s*", re.DOTALL)
_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}


@dataclass(frozen=True)
class Condition:
    """Condition that selects runs.

    Attributes:
        key: a column of :class:`rlcore_tools.runs.row.Row`, or a key of the configuration.
        sign: comparison sign, one of `=`, `==`, `!=`, `>`, `>=`, `<`, `<=`.
        value: right-hand side as on a command line: `0.95`, `true`, `null`, `[1, 2]`.
    """

    key: str
    sign: str
    value: str

    @classmethod
    def read(cls, text: str) -> Condition:
        """Parse a condition; quotes around its value are removed.

        Raises:
            ConfigError: the text is not of the form KEY SIGN VALUE.
        """
        match = _CONDITION.fullmatch(text)
        if match is None:
            raise ConfigError(
                f"--where {text!r} is no condition: KEY SIGN VALUE, with one of = != > >= < <=",
                hint="--where 'algorithm.gamma>0.95' --where state=finished",
            )
        return cls(match[1], match[2], match[3].strip("'\""))

    def holds(self, row: Row) -> bool:
        """Check whether a run meets the condition.

        A missing key counts as null. Values that both read as numbers are compared as numbers, all
        others as texts. `>`, `>=`, `<` and `<=` between texts hold only if the run's value is text,
        so that null is neither larger nor smaller than any value.
        """
        value = row.value(self.key)
        numbers = _number(value), _number(self.value)
        are_numbers = None not in numbers
        if self.sign in _ORDERS:
            order = _ORDERS[self.sign]
            if are_numbers:
                return order(*numbers)
            return isinstance(value, str) and order(value, self.value)
        text = format_value(value)
        is_equal = numbers[0] == numbers[1] if are_numbers else text == self.value
        return is_equal == (self.sign != "!=")


def chosen(rows: Sequence[Row], conditions: Sequence[Condition]) -> list[Row]:
    """Return the rows that meet all conditions.

    Raises:
        ConfigError: no run has the key of a condition.
    """
    for condition in conditions:
        _require(condition.key, rows)
    return [row for row in rows if all(condition.holds(row) for condition in conditions)]


def ordered(rows: Sequence[Row], key: str) -> list[Row]:
    """Sort rows by a column or key: ascending, or descending with `-` before the key.

    Numbers sort before texts, in reverse if descending. Rows without a value come last.

    Raises:
        ConfigError: no run has the key.
    """
    name = key.removeprefix("-")
    _require(name, rows)
    with_value = [row for row in rows if row.value(name) is not None]
    without_value = [row for row in rows if row.value(name) is None]
    with_value.sort(key=lambda row: _rank(row.value(name)), reverse=key != name)
    return with_value + without_value


def _require(key: str, rows: Sequence[Row]) -> None:
    """Raise ConfigError for a key that no run has; any key is accepted if there are no rows."""
    has_key = (find(row.config, key, COLUMNS) is not COLUMNS for row in rows)  # null is a value
    if not rows or key in COLUMNS or any(has_key):
        return
    keys = {path for row in rows[:1] for path, _ in leaves(row.config)}
    raise ConfigError(
        f"no run here has {key!r}{choices_message(key, {*COLUMNS, *keys})}",
        hint="rlcore runs show RUN --json lists the columns; config.yaml in its folder, the keys",
    )


def _number(value: Any) -> float | None:
    """Return a value as a float; None if it is no number.

    Texts are converted too, because YAML 1.1 reads `1e-5` as text. A bool is no number.
    """
    if isinstance(value, bool):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _rank(value: Any) -> tuple[int, Any]:
    number = _number(value)
    return (1, format_value(value)) if number is None else (0, number)
