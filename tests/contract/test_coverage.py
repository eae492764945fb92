"""docs/coverage.csv: each feature of the documents names a test, or what it waits for.

And the small things that no other test shows: packages, folders, keys as the documents print them.
"""

from __future__ import annotations

import ast
import csv
import re
from collections import Counter
from functools import cache
from importlib.metadata import distribution
from pathlib import Path
from typing import NamedTuple

import pytest
from internals import compose

from rlcore.contracts.errors import ConfigError
from rlcore.contracts.specs import ActionChannel, CameraSpec, EnvSpec, StateChannel
from rlcore.plugins.import_target import load_target
from rlcore.plugins.registry import load_plugins

ROOT = Path(__file__).parents[2]
DATA = ROOT / "docs/coverage.csv"
STATUSES = ("works", "partly", "waits")
FEATURES = {
    "MetaWorld": 70,
    "ManiSkill": 64,
    "LIBERO": 42,
    "MetaWorld (Chinese)": 21,
    "RoboTwin": 91,
    "Design card": 38,
    "Across the documents": 24,
}
"""How many each document names: no row gets lost."""


class Row(NamedTuple):
    document: str
    section: str
    feature: str
    status: str
    test: str
    note: str


def rows() -> list[Row]:
    with DATA.open(newline="", encoding="utf-8") as file:
        head, *lines = csv.reader(file)
    assert tuple(head) == Row._fields
    return [Row(*line) for line in lines]


@cache
def named_in(file: Path) -> frozenset[str]:
    """Names of its tests, read and not run."""
    nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    return frozenset(n.name for n in nodes if isinstance(n, ast.FunctionDef))


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.feature[:40])
def test_each_row_names_a_test_or_what_it_waits_for(row):
    assert row.status in STATUSES and row.feature
    if row.status == "waits":
        assert not row.test
        assert row.note.startswith("for "), "it says what it waits for"
        return
    found = re.fullmatch(r"([\w./-]+\.py)(?:::(test_\w+))?", row.test)
    assert found, f"no test: {row.test}"
    file, name = ROOT / found[1], found[2]
    assert file.is_file(), row.test
    if name is None:  # conformance: the tests of a whole file
        assert file.name == "test_conformance.py", row.test
    else:
        assert name in named_in(file), row.test
    assert row.note or row.status == "works", "what is missing is said"


def test_no_row_is_lost():
    assert dict(Counter(row.document for row in rows())) == FEATURES


def test_pages_that_notes_name_exist():
    pages = re.findall(r"\bdocs/[\w/-]+\.md\b", DATA.read_text(encoding="utf-8"))
    assert len(pages) > 20
    assert [page for page in pages if not (ROOT / page).exists()] == []


def test_the_folders_of_the_design_card_are_there():
    for name in ("rlcore", "plugins/envs", "plugins/models", "plugins/algos", "configs", "tests"):
        assert (ROOT / name).is_dir(), name
    for name in ("pyproject.toml", "CONTRIBUTING.md"):
        assert (ROOT / name).is_file(), name


def test_the_packages_of_the_design_card_are_declared():
    projects = [ROOT / "pyproject.toml", *ROOT.glob("plugins/**/pyproject.toml")]
    declared = "\n".join(project.read_text() for project in projects)
    for name in ("torch", "ray", "pluggy", "hydra-core", "transformers", "peft", "metaworld"):
        assert re.search(rf'"{name}[<>=]', declared), name
    for name in ("mani_skill", "sapien"):  # sapien comes with it
        assert re.search(rf'"{name}[<>=]', declared) or distribution(name), name


def test_the_hubs_own_command_comes_along():
    """`hf download`, which the documents type: it is in a package that models depend on."""
    scripts = [point.name for point in distribution("huggingface_hub").entry_points]
    assert "hf" in scripts
    assert "huggingface" in " ".join(distribution("transformers").requires or ())


@pytest.mark.parametrize("key", ["video_cfg={save_video: true}", "enable_offload=true"])
def test_keys_at_the_top_level_are_refused_with_their_places(key, refused):
    """Fragments of the documents print them without a section."""
    name = key.partition("=")[0]
    with refused(ConfigError, f"env.train.{name}", f"env.eval.{name}", text=False):
        compose(["env=metaworld", key], require=())


TWO_ARMS = EnvSpec(
    name="two_arms",
    tasks=("cup",),
    instructions=("put the cup on the coaster",),
    train_trials=range(10),
    heldout_trials=range(10, 20),
    cameras=tuple(CameraSpec(name, 224, 224) for name in ("head", "left", "right")),
    states=(StateChannel("joints", 14),),
    actions=(ActionChannel("joint_position", 14),),
    max_episode_steps=200,
)
"""An env as the RoboTwin document describes it: 14 states, 14 actions, up to three cameras."""
TOKENS = [
    "actor.model.model_type=openvla_oft", "actor.model.implement_version=official",
    "actor.model.action_dim=14", "actor.model.use_proprio=True", "actor.model.proprio_dim=14",
    "actor.model.use_film=False", "actor.model.num_images_in_input=1",
    "actor.model.num_action_chunks=25", "actor.model.unnorm_key=place_empty_cup",
]  # fmt: skip
FLOW = [
    "actor.model.num_action_chunks=50", "actor.model.add_value_head=True",
    "actor.model.action_dim=14", "actor.model.OpenPI.num_images_in_input=3",
    "actor.model.OpenPI.detach_critic_input=True",
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::rlcore.config.warning.ConfigWarning")
@pytest.mark.parametrize(
    ("model", "keys", "chunk", "images"),
    [
        ("openvla_oft", TOKENS, 25, 1),
        ("openpi", [*FLOW, "actor.model.OpenPI.config_name=pi0_aloha_robotwin"], 50, 3),
        ("openpi", [*FLOW, "actor.model.OpenPI.config_name=pi05_aloha_robotwin"], 50, 3),
    ],
)
def test_the_documents_keys_for_two_arms(model, keys, chunk, images):
    """All keys of a model's block together, as printed, on an env of that width."""
    config = compose([f"model={model}", *keys], require=("model",)).actor.model
    target = load_plugins().get("model", model).spec.spec
    assert target is not None
    spec = load_target(target)(config, TWO_ARMS)
    assert (spec.action_dim, spec.num_action_chunks, spec.num_images) == (14, chunk, images)
    assert spec.state_dim in (14, 32)  # as wide as the env's, or as the network's
    assert (spec.value_dim > 0) == (model == "openpi")
