"""No key is dead: whatever the schema offers, some code reads."""

from __future__ import annotations

import re
from pathlib import Path

import rlcore
from rlcore.config import tree
from rlcore.config.bind import SLOTS, default_settings
from rlcore.config.schema import RunConfig
from rlcore.plugins import load_plugins

CORE = Path(rlcore.__file__).parent
PLUGINS = CORE.parent / "plugins"
DECLARE_ONLY = {"schema.py", "limits.py", "settings.py", "toy_settings.py", "explain.py"}


def readers() -> str:
    """All code that may read a key: the files that only declare keys are left out."""
    files = [*CORE.rglob("*.py"), *PLUGINS.glob("*/*/rlcore_*/**/*.py")]
    return "\n".join(f.read_text(encoding="utf-8") for f in files if f.name not in DECLARE_ONLY)


def all_keys() -> list[tree.Key]:
    registry = load_plugins()
    keys = list(tree.walk(RunConfig()))
    for slot in SLOTS:
        for name in registry.names(slot.kind):
            keys += tree.walk(default_settings(registry, slot, name), slot.section)
    return [key for key in keys if not key.section]


def test_every_key_is_read_somewhere():
    text = readers()
    dead = set()
    for key in all_keys():
        name = key.path.rpartition(".")[2]
        if len(key.choices) == 1:  # says what the system is; there is nothing to decide by it
            continue
        if not re.search(rf"\.{name}\b|[\"']{name}[\"']", text):
            dead.add(key.path)
    assert dead == set()


def test_every_key_has_a_sentence():
    assert [key.path for key in all_keys() if not key.help] == []


def test_a_default_lies_among_its_choices():
    for key in all_keys():
        assert not key.choices or key.value in (*key.choices, None), key.path
