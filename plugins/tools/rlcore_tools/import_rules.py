"""Define rules for importing another system's configuration file, key by key. Light.

A component lists the rules for its own section
(:attr:`rlcore.contracts.specs.ComponentSpec.imports`). Keys with the same name and meaning need no
rule. Does not know which command reads the file, or what it does with the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

UNSAID = object()
"""Marks the absence of a value, since None is a value."""


@dataclass(frozen=True)
class Foreign:
    """A configuration file of another system.

    Attributes:
        file: path of the file.
        values: its values by dotted path, with interpolations resolved.
    """

    file: Path
    values: Mapping[str, Any]

    def get(self, path: str, default: Any = None) -> Any:
        """Return the value at a dotted path, or `default` if the file has none."""
        return self.values.get(path, default)

    def episodes(self) -> int:
        """Return the number of episodes of one evaluation epoch.

        Each env plays one episode or, with `auto_reset`, as many as fit into the epoch's steps.
        """
        envs, steps, limit = (
            self.get(f"env.eval.{key}") or 0
            for key in ("total_num_envs", "max_steps_per_rollout_epoch", "max_episode_steps")
        )
        again = steps // limit if limit and self.get("env.eval.auto_reset") else 1
        return int(envs * max(1, again))

    def nearby(self, name: str) -> Path | None:
        """Return the file `name` relative to the nearest parent folder that has it, or None."""
        found = (folder / name for folder in self.file.absolute().parents)
        return next((path for path in found if path.is_file()), None)


@dataclass(frozen=True)
class ImportRule:
    """How to import one key of such a file. The first rule that matches a key decides.

    Attributes:
        theirs: dotted path in the foreign file; `*` matches one name, or any number of names at
            the end. Empty for behaviour of the foreign code that no key controls.
        ours: dotted path in rlcore with as many `*`; None if rlcore has no such key.
        says: how rlcore's key differs, or why there is none; printed after a colon.
        value: converts the foreign value, and returns :data:`UNSAID` to set nothing; None if the
            values are equal. It raises ValueError, with the reason, for a value without
            counterpart.
        only: for a key without counterpart, the values that can be dropped without loss; None for
            all values.
        silent: default of the foreign code if the file does not set the key.
    """

    theirs: str
    ours: str | None
    says: str
    value: Callable[[Any, Foreign], Any] | None = None
    only: tuple[Any, ...] | None = None
    silent: Any = UNSAID

    def match(self, path: str) -> str | None:
        """Return the name that `*` matches in a key's path, "" if the rule has no `*`, or None if
        the rule does not apply to the key."""
        wanted, names = self.theirs.split("."), path.split(".")
        if wanted[-1] == "*" and len(names) >= len(wanted):
            wanted, names = wanted[:-1], names[: len(wanted) - 1]
        pairs = list(zip(wanted, names, strict=False))
        if len(wanted) != len(names) or any(want not in ("*", name) for want, name in pairs):
            return None
        return next((name for want, name in pairs if want == "*"), "")
