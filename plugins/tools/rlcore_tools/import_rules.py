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
"""In place of a value: there is none."""


@dataclass(frozen=True)
class Foreign:
    """A configuration file of another system.

    Attributes:
        file: where it is.
        values: its values by dotted path, interpolations resolved.
    """

    file: Path
    values: Mapping[str, Any]

    def get(self, path: str, default: Any = None) -> Any:
        """The value at a dotted path; `default` where the file has none."""
        return self.values.get(path, default)

    def episodes(self) -> int:
        """How many episodes a pass of its evaluation plays: with `auto_reset`, each env one after
        another."""
        envs, steps, limit = (
            self.get(f"env.eval.{key}") or 0
            for key in ("total_num_envs", "max_steps_per_rollout_epoch", "max_episode_steps")
        )
        again = steps // limit if limit and self.get("env.eval.auto_reset") else 1
        return int(envs * max(1, again))

    def nearby(self, name: str) -> Path | None:
        """A file of the checkout it is from: `name` below one of the folders above it."""
        found = (folder / name for folder in self.file.absolute().parents)
        return next((path for path in found if path.is_file()), None)


@dataclass(frozen=True)
class ImportRule:
    """How to import one key of such a file. The first rule that matches a key decides.

    Attributes:
        theirs: its dotted path there; `*` is any one name, at the end any names. Empty: no key, but
            what their code does without one.
        ours: the path here, with as many `*`; None: there is no such key.
        says: how ours differs, or why there is none; for behind a colon.
        value: from the value there to the one here, :data:`UNSAID` for none; None: they are equal.
            A ValueError says that the value has no counterpart, and why.
        only: of a key with none here, the values without which nothing is lost; None: all.
        silent: what their code takes where the file does not say.
    """

    theirs: str
    ours: str | None
    says: str
    value: Callable[[Any, Foreign], Any] | None = None
    only: tuple[Any, ...] | None = None
    silent: Any = UNSAID

    def match(self, path: str) -> str | None:
        """The name that `*` stands for if the rule is for this key ("" if it has none), else
        None."""
        wanted, names = self.theirs.split("."), path.split(".")
        if wanted[-1] == "*" and len(names) >= len(wanted):
            wanted, names = wanted[:-1], names[: len(wanted) - 1]
        pairs = list(zip(wanted, names, strict=False))
        if len(wanted) != len(names) or any(want not in ("*", name) for want, name in pairs):
            return None
        return next((name for want, name in pairs if want == "*"), "")
