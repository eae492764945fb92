"""Declare a key: its help text, its default and the values it may take."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field, is_dataclass
from typing import Any, Literal

Place = Literal["read", "checkpoint", "written", "data", "path", "program"]
"""What a run does with the folder that a key names, and so what it must be before a run starts:
one that is there, or one that can be written to. A "checkpoint" is read, and may be given by its
name on a hub (:mod:`rlcore.files.hub`). "data" is a data set, a folder or a file, of which its
reader says what is wrong (:func:`rlcore.demonstrations.datasets.require_dataset`). Of a "path"
nothing is asked; who reads it says what is wrong with it. Nor of a "program", which may be a name
on PATH."""

Fixed = Literal["weights", "initial", "start", "no"]
"""What becomes of another value once a run has made updates. "weights": it is refused, as the key
decides which weights the run begins with, and which it trains. "initial": a warning says that it
has no effect on random initial weights. "start": a warning says that it has no effect, as the
supervised start is made. "no": the key may change."""

LARGEST = 10**6
"""The largest number of a key that says nothing else: no run needs more, and with more it breaks
where nobody would look for the key."""


@dataclass(frozen=True)
class Range:
    """Which numbers a key may take; a bound of None means no bound but `largest`. nan and the
    infinities are never within.

    Attributes:
        least, most: bounds that may be taken.
        above, below: bounds that may not.
        off: one value outside that switches the thing off.
        largest: with either sign; larger numbers have a meaning, and are a slip.
    """

    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None
    off: float | None = None
    largest: float = LARGEST

    def __contains__(self, value: float) -> bool:
        return value == self.off or (
            -self.largest <= value <= self.largest
            and (self.least is None or value >= self.least)
            and (self.above is None or value > self.above)
            and (self.most is None or value <= self.most)
            and (self.below is None or value < self.below)
        )

    def __str__(self) -> str:
        """As it stands behind "must be"."""
        low = self.least if self.above is None else self.above
        high = self.most if self.below is None else self.below
        if low is not None and high is not None:
            opening, closing = (
                "[" if self.above is None else "(",
                "]" if self.below is None else ")",
            )
            text = f"in {opening}{low:g}, {high:g}{closing}"
        elif low is not None:
            text = f"{'at least' if self.above is None else 'more than'} {low:g}"
        elif high is not None:
            text = f"{'at most' if self.below is None else 'less than'} {high:g}"
        else:
            text = "a finite number"
        return text if self.off is None else f"{self.off:g} (off) or {text}"


@dataclass(frozen=True)
class Door:
    """Of a key through which code comes in, or a secret goes out: what it does, and values with
    which it does not.

    Attributes:
        does: for behind "this" and before the value, e.g. "imports the modules".
        harmless: values that let nothing in.
        known: `"module:attr"`, a function that says whether the user has opened it to a value
            before, on this machine; empty: there is none.
        risk: for behind "which".
    """

    does: str
    harmless: tuple[Any, ...]
    known: str = ""
    risk: str = "can run any code"


@dataclass(frozen=True)
class When:
    """Another key that decides whether one is read.

    Attributes:
        key: the other: a bare name stands in the same section, a dotted path begins at the root.
        values: those under which the key is read; empty: all but those of `unless`.
        unless: those under which it is not.
    """

    key: str
    values: tuple[Any, ...] = ()
    unless: tuple[Any, ...] = ()

    def other(self, path: str) -> str:
        """Dotted path of the other key, for the key at `path`."""
        section, dot, _ = path.rpartition(".")
        return self.key if "." in self.key else f"{section}{dot}{self.key}"

    def holds(self, value: Any) -> bool:
        """Whether the key is read while the other has this value."""
        return value in self.values if self.values else value not in self.unless


def key(
    help: str,
    default: Any = None,
    *,
    choices: Sequence[str] | None = None,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
    off: float | None = None,
    largest: float = LARGEST,
    own: bool = False,
    place: Place | None = None,
    door: Door | None = None,
    when: When | Sequence[When] = (),
    fixed: Fixed | None = None,
) -> Any:
    """A field with its help text and the values it may take in the metadata.

    Mutable defaults (lists, mappings, sections) become factories of copies.

    Args:
        help: one sentence, with the unit.
        default: its value if none is set; `"???"` if one must be set.
        choices: of a text, all values there are.
        least, above, most, below, off, largest: of a number, or of the numbers of a list or
            mapping: see :class:`Range`. Null, where a key may be null, is always allowed.
        when: other keys that must all have certain values for this one to be read; if set while
            it has no effect, a warning says so.
        place: of a folder, what is done with it (:data:`Place`). It is meant from where the user
            stands, so it is made absolute when a configuration is composed: a worker, or a later
            command, stands elsewhere.
        own: of a key that all components of a kind have: its values mean something to the one
            they were chosen for only, as names of tasks do. A recipe's value stays behind when
            another component takes its place.
        door: of a key whose values let code in, such as names of modules to import: the folder of
            a run can't decide it, unless who uses it says `--trust`.
        fixed: whether a resumed run may have another value (:data:`Fixed`); None: as the section
            says that the key is in, and "no" where it says nothing.
    """
    metadata = {
        "help": help,
        "choices": tuple(choices or ()),
        "range": Range(least, above, most, below, off, largest),
        "own": own,
        "place": place,
        "door": door,
        "when": (when,) if isinstance(when, When) else tuple(when),
        "fixed": fixed,
    }
    if isinstance(default, (list, dict)) or is_dataclass(default):
        return field(default_factory=lambda: deepcopy(default), metadata=metadata)
    return field(default=default, metadata=metadata)


class Settings:
    """Base of all sections. `compose` hands them out frozen; `dataclasses.replace` makes a
    changed copy, which is not.

    Where components of one kind share a dataclass whose keys mean the same to all of them, it says
    `family: ClassVar[bool] = True`: a recipe's values of these stay when one takes the place of
    another."""

    def __setattr__(self, name: str, value: Any) -> None:
        if "_frozen" in self.__dict__:
            raise AttributeError(f"the configuration is frozen: compose with SECTION.{name}=VALUE")
        super().__setattr__(name, value)

    def freeze(self) -> None:
        """Refuse further assignments, in this section and those inside it."""
        for value in vars(self).values():
            if isinstance(value, Settings):
                value.freeze()
        self.__dict__["_frozen"] = True
