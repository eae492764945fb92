"""No key is dead: whatever the schema offers, some code reads, and every number has a range."""

from __future__ import annotations

import ast
from math import inf
from pathlib import Path

import rlcore
from rlcore.config import schema_tree
from rlcore.config.bind import SLOTS, default_settings
from rlcore.config.schema import Range, RunConfig
from rlcore.plugins.registry import load_plugins

CORE = Path(rlcore.__file__).parent
PLUGINS = CORE.parent / "plugins"
EXTREME = (1e308, -1e308, 10**400, -(10**400), inf, -inf)
# either sign has a meaning
ANY_NUMBER = {
    "reward_coef", "entropy_bonus", "rewards_lower_bound", "rewards_upper_bound", "initial_value",
    "target_entropy",
}  # fmt: skip


def names_read() -> set[str]:
    """Attributes that some code reads, `config.NAME`. Declarations, assignments and texts don't
    count."""
    files = [*CORE.rglob("*.py"), *PLUGINS.glob("**/rlcore_*/**/*.py")]
    return {
        node.attr
        for file in files
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }


def sections_handed_on() -> set[str]:
    """Sections whose keys an env hands to its simulator as they are, `asdict(config.NAME)`."""
    calls = (
        node
        for file in PLUGINS.glob("envs/**/rlcore_*/**/*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    )
    found = [call.args[0] for call in calls if call.func.id == "asdict" and call.args]  # type: ignore[attr-defined]
    return {section.attr for section in found if isinstance(section, ast.Attribute)}


def all_keys() -> list[schema_tree.Key]:
    registry = load_plugins()
    keys = list(schema_tree.walk(RunConfig()))
    for slot in SLOTS:
        for name in registry.names(slot.kind):
            keys += schema_tree.walk(default_settings(registry, slot, name), slot.section)
    return [key for key in keys if not key.section]


def test_every_key_is_read_somewhere():
    """Or has one choice: it stands in the recipes of others, and is there to refuse the rest."""
    read, handed_on = names_read(), sections_handed_on()
    keys = [key.path for key in all_keys() if len(key.choices) != 1]
    unread = [key.split(".") for key in keys if key.rpartition(".")[2] not in read]
    assert [key for key in unread if key[-2] not in handed_on] == []


def test_every_key_has_a_sentence():
    assert [key.path for key in all_keys() if not key.help] == []


def test_a_default_lies_among_its_choices():
    for key in all_keys():
        assert not key.choices or key.value in (*key.choices, None), key.path


def test_every_number_has_a_range_and_its_default_lies_in_it():
    for key in all_keys():
        numbers = [n for n in schema_tree.values_of(key.value)
                   if isinstance(n, (int, float)) and not isinstance(n, bool)]  # fmt: skip
        if "int" in key.type or "float" in key.type:
            free = key.path.rpartition(".")[2] in ANY_NUMBER
            assert free == (key.range == Range()), key.path
            # more is too large for any of them, but for seeds and env steps
            large = key.path in ("runner.seed", "runner.max_steps")
            assert large == (key.range.magnitude_limit > 10**6), key.path
            assert not [number for number in EXTREME if number in key.range], key.path
        assert all(number in key.range for number in numbers), key.path


def test_keys_of_envs_and_models_take_what_is_noted(snapshot):
    """Their ranges and choices: core refuses every other value."""
    slots = [slot for slot in SLOTS if slot.kind in ("env", "model")]
    registry = load_plugins()
    noted = [
        f"{key.path} of {name}: {key.range} {key.choices}"
        for slot in slots
        for name in registry.names(slot.kind)
        if registry.get(slot.kind, name).distribution.startswith("rlcore-")  # none of the user's
        for key in schema_tree.walk(default_settings(registry, slot, name), slot.section)
        if not key.section and (key.choices or key.range != Range())
    ]
    assert sorted(set(noted)) == snapshot
