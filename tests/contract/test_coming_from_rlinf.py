"""The tables of docs/coming-from-rlinf.md are those that `rlcore config import` works by.

To write them anew: `python tests/contract/test_coming_from_rlinf.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from rlcore_tools.import_rules import ImportRule
from rlcore_tools.rlinf import old_names, shared

from rlcore.config import schema_tree
from rlcore.config.bind import SLOTS, default_settings
from rlcore.config.schema import RunConfig
from rlcore.plugins.import_target import load_target
from rlcore.plugins.registry import load_plugins

PAGE = Path(__file__).parents[2] / "docs/coming-from-rlinf.md"
BEGIN, END = "<!-- the tables begin -->", "<!-- the tables end -->"
HEAD = "| key of RLinf | here | |\n|---|---|---|\n"


def tables() -> str:
    """All tables, each with its heading."""
    parts = [f"### Any file\n\n{HEAD}{''.join(map(row, shared.RULES))}"]
    parts.append(f"### Old spellings, in files and on the command line\n\n{HEAD}{spellings()}")
    seen: dict[str, list[str]] = {}
    for component, target in rules_of_components():
        seen.setdefault(target, []).append(component)
    for target, names in seen.items():
        rows = "".join(map(row, load_target(target)))
        parts.append(f"### {', '.join(f'`{name}`' for name in names)}\n\n{HEAD}{rows}")
    return "\n".join(parts)


def rules_of_components() -> Iterator[tuple[str, str]]:
    registry = load_plugins()
    for slot in (SLOTS[0], *SLOTS[2:]):
        for name in registry.names(slot.kind):
            target = registry.get(slot.kind, name).spec.imports
            if target is not None:
                yield name, target


def row(rule: ImportRule) -> str:
    theirs = f"`{rule.theirs}`" if rule.theirs else "(no key)"
    said = rule.says
    if rule.ours is None and rule.only is not None:
        allowed = " or ".join(f"`{'null' if v is None else str(v).lower()}`" for v in rule.only)
        said += f". Only {allowed}; another value is yours to decide"
    return f"| {theirs} | {f'`{rule.ours}`' if rule.ours else '-'} | {said} |\n"


def spellings() -> str:
    rows = [f"| `{old}` | `{new}` | |\n" for old, new in old_names.RENAMED.items()]
    rows += [f"| `{old}` | `{new}` | |\n" for old, new in old_names.MOVED.items()]
    for old, harmless in old_names.ONE_VALUE.items():
        allowed = " or ".join(f"`{value}`" for value in harmless)
        rows.append(f"| `{old}` | - | {allowed}, which changes nothing |\n")
    greedy = f"`{old_names.GREEDY}`"
    for old in old_names.RULES:
        other = " and `rollout.eval_temperature`" if "temperature" in old else ""
        rows.append(f"| `{old}` | {greedy}{other} | of evaluations |\n")
    return "".join(rows)


def test_the_tables_are_those_of_the_importer():
    page = PAGE.read_text()
    told = page.split(BEGIN)[1].split(END)[0].strip()
    assert told == tables().strip(), f"python {Path(__file__).relative_to(PAGE.parents[1])}"


def test_keys_that_are_said_to_be_the_same_are():
    """They exist here, and no rule changes them."""
    section = PAGE.read_text().split("## Keys that are the same")[1].split("\n## ")[0]
    same = re.findall(r"`([\w.*]+\.[\w.*]+)`", section)
    assert len(same) > 60
    registry, rules = load_plugins(), [*shared.RULES]
    keys = [*schema_tree.walk(RunConfig())]
    for slot in SLOTS:
        for name in registry.names(slot.kind):
            keys += schema_tree.walk(default_settings(registry, slot, name), slot.section)
    for _, target in rules_of_components():
        rules += load_target(target)
    known = {key.path for key in keys}
    changed = (old_names.RENAMED, old_names.ONE_VALUE, old_names.RULES)
    for path in same:
        for each in [path.replace("*", side) for side in ("train", "eval")]:
            assert each in known, path
            assert not any(each in table for table in changed), path
            assert not any(r.theirs and r.match(each) is not None for r in rules), path


def test_no_key_stands_in_two_tables():
    """A rule of a component, a rule for any file or an old spelling: one place tells each key."""
    told: dict[str, list[str]] = {}
    sources = {"any file": shared.RULES} | {t: load_target(t) for _, t in rules_of_components()}
    for source, rules in sources.items():
        for rule in rules:
            if rule.theirs:
                told.setdefault(rule.theirs, []).append(source)
    for path in (*old_names.RENAMED, *old_names.ONE_VALUE):
        assert path not in told, path
    twice = {path for path, sources in told.items() if "any file" in sources and len(sources) > 1}
    assert twice <= {"actor.model.precision", "actor.optim.critic_warmup_steps"}, twice
    for path, sources in told.items():
        assert len(sources) == len(set(sources)), path


if __name__ == "__main__":
    before, rest = PAGE.read_text().split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{tables()}\n{END}{rest.split(END)[1]}")
