"""Define the rules by which one key of RLinf's configuration files becomes a key of rlcore.

Keys with the same name and meaning need no rule. :mod:`rlcore_rlinf.rules` has the rules.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

UNSET = object()
"""Marks the absence of a value, since None is a value."""


@dataclass(frozen=True)
class RLinfFile:
    """A configuration file of RLinf.

    Attributes:
        path: path of the file.
        values: its values by dotted path, with interpolations resolved.
    """

    path: Path
    values: Mapping[str, Any]

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value at a dotted path, or `default` if the file does not set it."""
        return self.values.get(key, default)

    def episodes(self) -> int:
        """Return the number of episodes of one evaluation epoch.

        Each env plays one episode or, with `auto_reset`, as many as fit into the epoch's steps.
        """
        envs, steps, limit = (
            self.get(f"env.eval.{key}") or 0
            for key in ("total_num_envs", "max_steps_per_rollout_epoch", "max_episode_steps")
        )
        repeats = steps // limit if limit and self.get("env.eval.auto_reset") else 1
        return int(envs * max(1, repeats))

    def nearby(self, name: str) -> Path | None:
        """Return the file `name` relative to the nearest parent folder that has it, or None."""
        candidates = (folder / name for folder in self.path.absolute().parents)
        return next((path for path in candidates if path.is_file()), None)


Convert = Callable[[Any, RLinfFile], Any]
"""Return rlcore's value for RLinf's value in a file, or :data:`UNSET` to set nothing.

Raises:
    ValueError: the value has no counterpart; the message is the reason.
"""


@dataclass(frozen=True)
class ImportRule:
    """Rule for the import of one key. The first rule that matches a key is applied.

    Attributes:
        theirs: dotted path in RLinf's file; `*` matches one name, or any number of names at the
            end. Empty for behaviour of RLinf's code that no key controls.
        ours: dotted path in rlcore with as many `*`; None if rlcore has no such key.
        note: how rlcore's key differs, or why it has no counterpart; printed after a colon.
        convert: converts the value; None if the values are equal.
        only: for a key without counterpart, the values that can be dropped without loss; None for
            all values.
        default: value in RLinf's code if the file does not set the key.
    """

    theirs: str
    ours: str | None
    note: str
    convert: Convert | None = None
    only: tuple[Any, ...] | None = None
    default: Any = UNSET

    def match(self, path: str) -> str | None:
        """Return the name that `*` matches in a key's path, "" if the rule has no `*`, or None if
        the rule does not apply to the key."""
        section = self.theirs.removesuffix(".*")
        below = r"\..+" if section != self.theirs else ""
        pattern = re.escape(section).replace(r"\*", r"([^.]+)") + below
        matched = re.fullmatch(pattern, path)
        if matched is None:
            return None
        return matched[1] if matched.re.groups else ""


def table(
    *mapped: ImportRule,
    harmless: Mapping[str, tuple[str, tuple[Any, ...]]] | None = None,
    dropped: Mapping[str, str] | None = None,
) -> tuple[ImportRule, ...]:
    """Return the rules of one component.

    Args:
        mapped: rules of keys that have a counterpart.
        harmless: `{key: (note, values)}` of keys without a counterpart. With these values they can
            be dropped; with other values the user has to decide.
        dropped: `{key: note}` of keys without a counterpart that have no effect.
    """
    return (
        *mapped,
        *(
            ImportRule(key, None, note, only=values)
            for key, (note, values) in (harmless or {}).items()
        ),
        *(ImportRule(key, None, note) for key, note in (dropped or {}).items()),
    )


def constant(ours: str, note: str, value: Any) -> ImportRule:
    """Return the rule for a value that RLinf's code fixes and rlcore's configuration sets."""
    return ImportRule("", ours, note, lambda *_: value)


def defaults(note: str, values: Mapping[str, Any]) -> tuple[ImportRule, ...]:
    """Return rules for keys with equal names that have another default value in RLinf's code."""
    return tuple(ImportRule(key, key, note, default=value) for key, value in values.items())
