"""Core names no env, model or algorithm: not in code, not in strings, not in comments."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rlcore.plugins.registry import load_plugins

ROOT = Path(__file__).parents[2]
KINDS = ("envs", "models", "algos")  # what is beside them has no kind
# any reader's words, and the library whose vocabulary an Env has
WORDS = {"weights", "gaussian", "gymnasium", "flow"}
# the library that has instructions of tasks (`env.*.sentences`) and a format of demonstrations
LIBRARY = "lerobot"
LIBRARY_FILES = {
    *("checks/instruction_warnings.py", "config/instructions.py", "config/schema/env.py"),
    "config/schema/supervised.py",
}
PLUGINS = {folder.name for kind in KINDS for folder in ROOT.glob(f"plugins/{kind}/*")} - WORDS
# of the design, whether built already or not
PLANNED = {"metaworld", "maniskill", "libero", "robotwin", "openvla", "openpi", "ppo", "grpo"}
NAMES = PLUGINS | PLANNED | {"pi0", "pi05"}
# Short ones must stand alone (su-ppo-rt); the others may be part of a word (OpenVLAPolicy).
SHORT = 4


def words(text: str) -> list[str]:
    """Lower-case words; `PPOLoss`, `ppo_loss` and `run-ppo` all hold the word ppo."""
    text = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1 \2", text)
    text = re.sub(r"([a-z])([A-Z])", r"\1 \2", text)
    return re.findall(r"[a-z0-9]+", text.lower())


def named(line: str) -> list[str]:
    """Names of components in a line."""
    alone = set(words(line))
    whole = re.sub(r"[^a-z0-9]", "", line.lower())
    return sorted(n for n in NAMES if (n in alone if len(n) <= SHORT else n in whole))


def test_core_names_no_component():
    files = sorted((ROOT / "rlcore").rglob("*.py"))
    assert len(files) > 50
    found = [
        f"{file.relative_to(ROOT)}:{number}: {name}"
        for file in files
        for number, line in enumerate(file.read_text().splitlines(), start=1)
        for name in named(line)
        if not (name == LIBRARY and str(file.relative_to(ROOT / "rlcore")) in LIBRARY_FILES)
    ]
    assert found == []


def test_only_files_that_need_it_may_name_the_library():
    for name in LIBRARY_FILES:
        assert LIBRARY in named((ROOT / "rlcore" / name).read_text()), f"{name} needs it no more"


def test_messages_of_core_name_no_command_of_a_plugin():
    """Docstrings may, in backquotes: they tell who calls. Those of rlcore-tools go with core."""
    registry = load_plugins()
    commands = registry.components("command")
    beside = ("rlcore", "rlcore-tools")
    others = [each.spec.name for each in commands if each.distribution not in beside]
    assert "serve" in others
    called = re.compile(rf"(?<!`)rlcore ({'|'.join(others)})\b")
    found = [
        f"{file.relative_to(ROOT)}: {match[0]}"
        for file in sorted((ROOT / "rlcore").rglob("*.py"))
        for match in called.finditer(file.read_text())
    ]
    assert found == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('if env_type == "metaworld":', ["metaworld"]),
        ("class OpenVLAPolicy:", ["openvla"]),
        ("import rlcore_model_openpi", ["openpi"]),
        ("class PPOLoss:", ["ppo"]),
        ("use_grpo = True", ["grpo"]),
        ("# as in pi0.5", ["pi0"]),
        ("a supported opponent, epi0", []),
        ("Meta-World", ["metaworld"]),
        ("a LeRobot data set", ["lerobot"]),
    ],
)
def test_what_counts_as_a_name(line, expected):
    assert named(line) == expected
