"""Declare a key: its help text, its default and the values it may take."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field, is_dataclass
from typing import Any, ClassVar, Literal

Place = Literal["read", "checkpoint", "written", "data", "path", "program"]
"""How a run uses the path in a key, which decides what is checked before the run starts.

"read": the folder must exist. "written": the folder must be writable. "checkpoint": is read, and
may be given by its name on a hub (:mod:`rlcore.files.hub`). "data": a data set, which is a folder
or a file; its reader checks it (:func:`rlcore.demonstrations.datasets.require_dataset`). "path":
is not checked here; the code that reads it reports errors. "program": is not checked either, and
may be a name on PATH."""

Fixed = Literal["weights", "initial", "start", "no"]
"""What happens if a run that has made updates is resumed with another value.

"weights": the value is refused, as the key decides with which weights the run begins or which of
them it trains. "initial": a warning says that it has no effect on random initial weights. "start":
a warning says that it has no effect, as supervised training is already done. "no": the value may
change."""

LARGEST = 10**6
"""Default upper limit of numbers. No run needs more, and a larger number would cause an error far
from the key that is at fault."""


@dataclass(frozen=True)
class Range:
    """The numbers that a key may take. nan and infinities are never in the range.

    Attributes:
        minimum, maximum: inclusive bounds; None: no bound.
        exclusive_minimum, exclusive_maximum: exclusive bounds; None: no bound.
        disabled: a value outside the bounds that is allowed and means "off"; None: there is none.
        magnitude_limit: limit of the absolute value. A larger number would have a meaning, but is
            most likely a typing error.
    """

    minimum: float | None = None
    exclusive_minimum: float | None = None
    maximum: float | None = None
    exclusive_maximum: float | None = None
    disabled: float | None = None
    magnitude_limit: float = LARGEST

    def __contains__(self, value: float) -> bool:
        return value == self.disabled or (
            -self.magnitude_limit <= value <= self.magnitude_limit
            and (self.minimum is None or value >= self.minimum)
            and (self.exclusive_minimum is None or value > self.exclusive_minimum)
            and (self.maximum is None or value <= self.maximum)
            and (self.exclusive_maximum is None or value < self.exclusive_maximum)
        )

    def __str__(self) -> str:
        """Return the range in words that follow "must be" in an error."""
        low = self.minimum if self.exclusive_minimum is None else self.exclusive_minimum
        high = self.maximum if self.exclusive_maximum is None else self.exclusive_maximum
        if low is not None and high is not None:
            opening, closing = (
                "[" if self.exclusive_minimum is None else "(",
                "]" if self.exclusive_maximum is None else ")",
            )
            text = f"in {opening}{low:g}, {high:g}{closing}"
        elif low is not None:
            text = f"{'at least' if self.exclusive_minimum is None else 'more than'} {low:g}"
        elif high is not None:
            text = f"{'at most' if self.exclusive_maximum is None else 'less than'} {high:g}"
        else:
            text = "a finite number"
        return text if self.disabled is None else f"{self.disabled:g} (off) or {text}"


@dataclass(frozen=True)
class TrustedKey:
    """The risk of a key that can load code or leak a secret.

    Attributes:
        effect: effect of the key, for an error: it follows "this" and precedes the value, e.g.
            "imports the modules".
        harmless_values: values without a risk.
        allowed: `"module:attr"` of a function that takes the key's value and returns whether the
            user has already allowed it on this machine; empty: there is none.
        risk: the risk, for an error: it follows "which".
    """

    effect: str
    harmless_values: tuple[Any, ...]
    allowed: str = ""
    risk: str = "can run any code"


@dataclass(frozen=True)
class When:
    """A condition under which a key is read: the value of another key.

    Attributes:
        key: the other key: a bare name is in the same section, a dotted path begins at the root.
        values: values of the other key with which this one is read; empty: all except `unless`.
        unless: values of the other key with which this one is not read; ignored if `values` is set.
    """

    key: str
    values: tuple[Any, ...] = ()
    unless: tuple[Any, ...] = ()

    def other(self, path: str) -> str:
        """Return the dotted path of the other key, if the key with this condition is at `path`."""
        section, dot, _ = path.rpartition(".")
        return self.key if "." in self.key else f"{section}{dot}{self.key}"

    def holds(self, value: Any) -> bool:
        """Return whether the key is read if the other key has this value."""
        return value in self.values if self.values else value not in self.unless


def key(
    help: str,
    default: Any = None,
    *,
    choices: Sequence[str] | None = None,
    minimum: float | None = None,
    exclusive_minimum: float | None = None,
    maximum: float | None = None,
    exclusive_maximum: float | None = None,
    disabled: float | None = None,
    magnitude_limit: float = LARGEST,
    own: bool = False,
    place: Place | None = None,
    trusted: TrustedKey | None = None,
    when: When | Sequence[When] = (),
    fixed: Fixed | None = None,
) -> Any:
    """Declare a key: a dataclass field with its help text and allowed values in the metadata.

    A mutable default (list, mapping, section) becomes a factory that copies it.

    Args:
        help: help text: one sentence, with the unit.
        default: value if none is set; `"???"` if one must be set.
        choices: all allowed values of a string; None: any string.
        minimum, exclusive_minimum, maximum, exclusive_maximum, disabled, magnitude_limit: range of
            a number, or of each number in a list or mapping, see :class:`Range`. Null is always
            allowed for a key that may be null.
        own: for a key that all components of a kind have: whether its values only make sense for
            one component, such as names of tasks. If the component of a recipe is replaced, the
            recipe's value is dropped.
        place: for a path, how it is used (:data:`Place`). Composing a configuration makes it
            absolute, relative to the current folder, as a worker or a later command may run in
            another folder.
        trusted: for a key that can load code, such as names of modules to import, what it loads.
            The configuration in a run's folder can't set it, unless the user passes `--trust`.
        when: conditions on other keys, which must all hold for this key to be read; a warning is
            given if the key is set but not read.
        fixed: whether a resumed run may have another value (:data:`Fixed`); None: as declared for
            the section that contains the key, else "no".
    """
    metadata = {
        "help": help,
        "choices": tuple(choices or ()),
        "range": Range(
            minimum, exclusive_minimum, maximum, exclusive_maximum, disabled, magnitude_limit
        ),
        "own": own,
        "place": place,
        "trusted": trusted,
        "when": (when,) if isinstance(when, When) else tuple(when),
        "fixed": fixed,
    }
    if isinstance(default, (list, dict)) or is_dataclass(default):
        return field(default_factory=lambda: deepcopy(default), metadata=metadata)
    return field(default=default, metadata=metadata)


class Settings:
    """Base class of all sections.

    :func:`rlcore.config.compose.compose` returns frozen sections; `dataclasses.replace` makes a
    changed copy, which is not frozen.

    A base class that components of one kind share, and whose keys mean the same to all of them, is
    declared with `class Shared(AlgorithmConfig, family=True)`. If a component of a recipe is
    replaced by another of the family, the recipe's values of these keys are retained.
    """

    # underscored, so that it is not taken for a key without a type
    _is_family: ClassVar[bool] = False

    def __init_subclass__(cls, *, family: bool = False) -> None:
        super().__init_subclass__()
        cls._is_family = family

    @classmethod
    def is_family(cls) -> bool:
        """Return whether the class itself was declared with `family=True`; it is not inherited."""
        return cls._is_family

    def __setattr__(self, name: str, value: Any) -> None:
        if "_frozen" in self.__dict__:
            raise AttributeError(f"the configuration is frozen: compose with SECTION.{name}=VALUE")
        super().__setattr__(name, value)

    def freeze(self) -> None:
        """Make assignments raise AttributeError, in this section and those inside it."""
        for value in vars(self).values():
            if isinstance(value, Settings):
                value.freeze()
        self.__dict__["_frozen"] = True
