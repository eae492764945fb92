"""Define rules for importing another system's configuration file, key by key. Light.

A component lists the rules for its own section
(:attr:`rlcore.contracts.specs.ComponentSpec.imports`). Keys with the same name and meaning need no
rule, and old spellings that every run accepts are in :mod:`rlcore.config.old_names`. Does not know
which command reads the file, or what it does with the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rlcore.config import schema_tree
from rlcore.config.bind import SLOTS
from rlcore.config.old_names import Values, take, warn
from rlcore.config.schema import RunConfig
from rlcore.contracts.errors import ConfigError
from rlcore.plugins.import_target import load_target
from rlcore.plugins.registry import Registry
from rlcore.terminal.text import some, written

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
        once_ours: it was a key of ours, too: a configuration that has it still composes, with a
            warning.
    """

    theirs: str
    ours: str | None
    says: str
    value: Callable[[Any, Foreign], Any] | None = None
    only: tuple[Any, ...] | None = None
    silent: Any = UNSAID
    once_ours: bool = False

    def match(self, path: str) -> str | None:
        """The name that `*` stands for if the rule is for this key ("" if it has none), else
        None."""
        wanted, names = self.theirs.split("."), path.split(".")
        if wanted[-1] == "*" and len(names) >= len(wanted):
            wanted, names = wanted[:-1], names[: len(wanted) - 1]
        if len(wanted) != len(names):
            return None
        stars = [name for want, name in zip(wanted, names, strict=True) if want == "*"]
        same = all(want in ("*", name) for want, name in zip(wanted, names, strict=True))
        return (stars[0] if stars else "") if same else None


def rules_of(components: Mapping[str, str], registry: Registry) -> list[ImportRule]:
    """What components say of their keys, by section. An env's rules are for its side."""
    found: list[ImportRule] = []
    for slot in SLOTS:
        if slot.section not in components:
            continue
        target = registry.get(slot.kind, components[slot.section]).spec.imports
        rules = load_target(target) if target is not None else ()
        if slot.kind == "env":
            side = slot.section.rpartition(".")[2]
            rules = [_on_side(rule, side) for rule in rules]
        found += rules
    return found


def _on_side(rule: ImportRule, side: str) -> ImportRule:
    ours = rule.ours and rule.ours.replace("env.*.", f"env.{side}.")
    return replace(rule, theirs=rule.theirs.replace("env.*.", f"env.{side}."), ours=ours)


def drop_old_keys(values: Values, root: RunConfig, registry: Registry) -> None:
    """Remove from `values`, in place, keys that the components of `root` had once.

    Raises:
        ConfigError: a value whose meaning would be lost.
    """
    components = {slot.section: schema_tree.value_of(root, slot.type_key) for slot in SLOTS}
    chosen = {section: name for section, name in components.items() if name}
    dropped = []
    for rule in rules_of(chosen, registry):
        found, value = take(values, rule.theirs) if rule.once_ours else (False, None)
        if found and rule.only is not None and value not in rule.only:
            allowed = " or ".join(map(written, rule.only))
            raise ConfigError(
                f"{rule.theirs} must be {allowed}, or left out: {rule.says}, got {value!r}"
            )
        dropped += [rule.theirs] if found else []
    if dropped:
        warn(f"{some(dropped)}: without effect, and no longer read; leave them out")
