"""Each placement that the documents print can be typed on a command line."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml
from internals import compose

from rlcore.config import schema_tree
from rlcore.config.schema import RunConfig
from rlcore.placement import Inventory, Node, make_plan
from rlcore.plugins.registry import load_plugins

ROOT = Path(__file__).parents[2]
KEY = "cluster.component_placement"
TYPED = re.compile(rf"""['"]?{re.escape(KEY)}=\{{[^}}]*\}}['"]?""")
MAP = re.compile(r"\{[^{}]*(?:env|actor)[^{}]*: ?[^{}]*\}")
MACHINE = Inventory.uniform(2, Node(cpus=64, gpus=8))


def typed() -> list[str]:
    """Words of a shell: `'cluster.component_placement={...}'`, in documents and recipes."""
    files = [
        ROOT / "README.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "configs").rglob("*.yaml"),
    ]
    return [word for file in files for word in TYPED.findall(file.read_text(encoding="utf-8"))]


def mapped() -> list[str]:
    """Maps that docs/cluster.md and help print as values."""
    (key,) = (key for key in schema_tree.walk(RunConfig()) if key.path == KEY)
    texts = [key.help, (ROOT / "docs/cluster.md").read_text(encoding="utf-8")]
    blocks = re.findall(r"component_placement: .*\n    (\S+: \w+)\n", texts[1])
    assert blocks == ["env,rollout,actor: all"]
    found = [text for part in texts for text in MAP.findall(part)]
    return [*found, *(f"{{{block}}}" for block in blocks)]


def placed(value: object) -> list[tuple[str, tuple[int, ...]]]:
    """What sits where under a placement: of the words of a command line, or of a file."""
    words = ["env=toy", "model=toy", "algorithm=ppo", "cluster.num_nodes=2"]
    config = compose([*words, *([f"{KEY}={value}"] if isinstance(value, str) else [])])
    if not isinstance(value, str):
        config = compose(words)
        config.__dict__.pop("_frozen")
        config.cluster.__dict__.pop("_frozen")
        config.cluster.component_placement = value
    plan = make_plan(config.cluster, MACHINE, load_plugins())
    return [(role, p.resources) for role, processes in plan.roles() for p in processes]


def test_words_of_a_shell():
    words = typed()
    assert len(words) >= 5
    for word in words:
        (whole,) = shlex.split(word)  # a shell leaves one word of it
        assert placed(whole.removeprefix(f"{KEY}="))


@pytest.mark.quick(5)
@pytest.mark.parametrize("text", mapped())
@pytest.mark.parametrize("quote", ["", "'", '"'])
def test_maps_with_and_without_quotes(text: str, quote: str):
    """Each process gets the ranks of its name, alone or joined."""
    joined = re.fullmatch(r"\{'?env,rollout,actor'?: all\}", text)
    expected = dict.fromkeys(("env", "rollout", "actor"), "all") if joined else yaml.safe_load(text)
    assert placed(f"{quote}{text}{quote}") == placed(expected)
