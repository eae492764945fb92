"""The tables of docs/coming-from-rlinf.md are those that `rlcore config import` works by.

To write them anew: `python tests/contract/test_coming_from_rlinf.py`.
"""

from __future__ import annotations

import re
from pathlib import Path

from rlcore_rlinf import spellings
from rlcore_rlinf.rule import ImportRule
from rlcore_rlinf.rules import RULES, any_file

from rlcore.config import schema_tree
from rlcore.config.bind import SLOTS, default_settings
from rlcore.config.schema import RunConfig
from rlcore.plugins.registry import load_plugins

PAGE = Path(__file__).parents[2] / "docs/coming-from-rlinf.md"
BEGIN, END = "<!-- the tables begin -->", "<!-- the tables end -->"
HEAD = "| key of RLinf | here | |\n|---|---|---|\n"


def tables() -> str:
    """All tables, each with its heading."""
    parts = [f"### Any file\n\n{HEAD}{''.join(map(row, any_file.RULES))}"]
    parts.append(f"### Spellings in files and on the command line\n\n{HEAD}{spelling_rows()}")
    for (_, name), rules in RULES.items():
        parts.append(f"### `{name}`\n\n{HEAD}{''.join(map(row, rules))}")
    return "\n".join(parts)


def row(rule: ImportRule) -> str:
    theirs = f"`{rule.theirs}`" if rule.theirs else "(no key)"
    note = rule.note
    if rule.ours is None and rule.only is not None:
        allowed = " or ".join(f"`{'null' if v is None else str(v).lower()}`" for v in rule.only)
        note += f". Only {allowed}; another value is yours to decide"
    return f"| {theirs} | {f'`{rule.ours}`' if rule.ours else '-'} | {note} |\n"


def spelling_rows() -> str:
    renamed = spellings.RENAMED | dict.fromkeys(spellings.CROPS_OF_ENVS, spellings.CROP)
    rows = [f"| `{theirs}` | `{ours}` | |\n" for theirs, ours in renamed.items()]
    for theirs, harmless in spellings.ONE_VALUE.items():
        allowed = " or ".join(f"`{value}`" for value in harmless)
        rows.append(f"| `{theirs}` | - | {allowed}, which changes nothing |\n")
    deterministic = f"`{spellings.DETERMINISTIC}`"
    rows += [f"| `{key}` | {deterministic} | of evaluations |\n" for key in spellings.DO_SAMPLE]
    both = f"{deterministic} and `{spellings.TEMPERATURE}`"
    rows += [f"| `{key}` | {both} | of evaluations |\n" for key in spellings.TEMPERATURES]
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
    registry = load_plugins()
    rules = [*any_file.RULES, *(rule for table in RULES.values() for rule in table)]
    keys = [*schema_tree.walk(RunConfig())]
    for slot in SLOTS:
        for name in registry.names(slot.kind):
            keys += schema_tree.walk(default_settings(registry, slot, name), slot.section)
    known = {key.path for key in keys}
    changed = {*spellings.RENAMED, *spellings.ONE_VALUE, *spellings.DO_SAMPLE}
    changed |= {*spellings.TEMPERATURES}
    for path in same:
        for each in [path.replace("*", side) for side in ("train", "eval")]:
            assert each in known, path
            assert each not in changed, path
            assert not any(r.theirs and r.match(each) is not None for r in rules), path


def test_no_key_stands_in_two_tables():
    """A rule of a component, a rule for any file or a spelling: one place tells each key."""
    told: dict[str, list[str]] = {}
    sources = {"any file": any_file.RULES, **{name: rules for (_, name), rules in RULES.items()}}
    for source, rules in sources.items():
        for rule in rules:
            if rule.theirs:
                told.setdefault(rule.theirs, []).append(source)
    for path in (*spellings.RENAMED, *spellings.ONE_VALUE):
        assert path not in told, path
    twice = {path for path, sources in told.items() if "any file" in sources and len(sources) > 1}
    assert twice <= {"actor.model.precision", "actor.optim.critic_warmup_steps"}, twice
    for path, sources in told.items():
        assert len(sources) == len(set(sources)), path


if __name__ == "__main__":
    before, rest = PAGE.read_text().split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{tables()}\n{END}{rest.split(END)[1]}")
