"""The instructions of a policy: the env's own, or those of a file, matched by task."""

from __future__ import annotations

import importlib.util
import json
import warnings
from dataclasses import replace

import pytest
import yaml
from rlcore_testing.toy_settings import ToyEnvConfig, env_spec

from rlcore.checks import instruction_warnings
from rlcore.checks.facts import gather_facts
from rlcore.config import instructions
from rlcore.config.compose import IncompleteRecipeError, compose, load, recipe_of, to_yaml
from rlcore.config.instructions import UnlistedInstruction, resolve, with_instructions
from rlcore.config.warning import ConfigWarning
from rlcore.contracts.errors import ConfigError
from rlcore.runs.env_facts import EnvFacts

TOY = ["env=toy", "model=toy", "algorithm=plain"]
GIVEN = {
    "reach-left": "Go to the left",
    "reach-right": "Go to the right",
    "reach-up": "Go up",
    "reach-down": "Go down",
}
PATH = "env.train.sentences"
OWN = env_spec(ToyEnvConfig())


@pytest.fixture
def written(tmp_path):
    """`written(name, content)` writes a file and returns its path."""

    def write(name: str, content: str | list) -> str:
        if isinstance(content, list):
            content = "".join(json.dumps(row) + "\n" for row in content)
        (tmp_path / name).write_text(content)
        return str(tmp_path / name)

    return write


# -- files that map tasks to instructions -----------------------------------------------------


def test_a_mapping_of_names(written):
    assert resolve(written("s.yaml", yaml.safe_dump(GIVEN)), PATH) == GIVEN
    assert resolve(written("s.json", json.dumps(GIVEN)), PATH) == GIVEN
    assert resolve(GIVEN, PATH) == GIVEN
    assert resolve("own", PATH) == "own"


def test_a_mapping_inside_a_file(written, refused):
    file = written("envs.json", json.dumps({"texts": GIVEN, "numbers": {"reach-left": 0}}))
    assert resolve(f"{file}:texts", PATH) == GIVEN
    with refused(ConfigError, "texts, numbers", "envs.json:texts"):
        resolve(file, PATH)
    with refused(ConfigError, "'words'", "texts, numbers"):
        resolve(f"{file}:words", PATH)
    with refused(ConfigError, "'reach-left'", 0):
        resolve(f"{file}:numbers", PATH)


@pytest.mark.parametrize("name", ["tasks.jsonl", "tasks.parquet"])
def test_a_table_of_numbers_is_not_guessed_at(written, refused, name):
    with refused(ConfigError, name, "NAME.yaml"):
        resolve(written(name, '{"task_index": 0, "task": "Go to the left"}'), PATH)


# -- invalid files -------------------------------------------------------------------------------

BAD = {
    "empty.yaml": ("", "mapping"),
    "list.yaml": ("[a, b]", "mapping"),
    "blank.yaml": ("reach-left: ' '", "'reach-left'"),
    "null.yaml": ("reach-left:", "'reach-left'"),
    "number.yaml": ("3: go", "3"),
    "yes.yaml": ("reach-left: yes", "True"),
    "other.yaml": ("reach-left: ${oc.env:HOME}", "'reach-left'"),
    "twice.yaml": ("reach-left: go\nreach-left: run", "'reach-left'"),
    "twice.json": ('{"reach-left": "go", "reach-left": "run"}', "'reach-left'"),
    "none.json": ("{}", "none"),
    "text.json": ('{"reach-left": ', "read"),
    "text.yaml": ("a: [", "read"),
    "words.txt": ("go left", "own"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_refused_by_key_and_file(written, refused, name):
    text, named = BAD[name]
    parsed = not name.startswith("text")  # a parser words the others
    error_class = UnlistedInstruction if name == "none.json" else ConfigError
    with refused(error_class, PATH, name, named, text=parsed):
        resolve(written(name, text), PATH)


@pytest.mark.parametrize("value", [None, 3, "", ["own"], "Own", "nowhere.yaml", "/dev/zero", "."])
def test_a_bad_value_is_refused_by_its_key(refused, value):
    with refused(ConfigError, PATH):
        resolve(value, PATH)


# -- searched files --------------------------------------------------------------------------------


@pytest.fixture
def checkpoint(tmp_path, monkeypatch):
    """The folder of a policy without instructions, on a machine without LeRobot."""
    monkeypatch.setattr(instructions, "find_spec", lambda name: None)
    folder = tmp_path / "models" / "policy"
    folder.mkdir(parents=True)
    return folder


def instructions_beside(checkpoint, value="checkpoint"):
    with warnings.catch_warnings(record=True):
        return resolve(value, PATH, "toy", str(checkpoint))


LEROBOTS = json.dumps({"TASK_DESCRIPTIONS": GIVEN, "TASK_NAME_TO_ID": {"reach-left": 0}})


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("rlcore_env.json", json.dumps({"env": "toy", "sentences": GIVEN})),
        ("toy_config.json", LEROBOTS),
        ("../toy_config.json", LEROBOTS),
    ],
)
def test_a_checkpoint_s_folder_or_its_parent_may_hold_instructions(checkpoint, place, text):
    assert instructions_beside(checkpoint) == "checkpoint"
    file = checkpoint / place
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    assert instructions_beside(checkpoint) == GIVEN
    assert instructions_beside(checkpoint, "lerobot") == "lerobot"
    with pytest.warns(ConfigWarning, match="toy_config|rlcore_env"):
        resolve("checkpoint", PATH, "toy", str(checkpoint))


def test_files_without_instructions_are_skipped_and_damaged_ones_refused(checkpoint, refused):
    (checkpoint / "rlcore_env.json").write_text('{"env": "toy", "sentences": {}}')
    assert instructions_beside(checkpoint) == "checkpoint"
    (checkpoint.parent / "toy_config.json").write_text(LEROBOTS)
    assert instructions_beside(checkpoint) == GIVEN
    (checkpoint / "toy_config.json").write_text(LEROBOTS[:-9])
    with refused(ConfigError, "toy_config.json", text=False):
        instructions_beside(checkpoint)


def test_an_installed_lerobot_holds_instructions(checkpoint, tmp_path, monkeypatch):
    """It is not imported: its package would load a tensor library, or fail where that is absent."""
    monkeypatch.setattr(instructions, "find_spec", importlib.util.find_spec)
    package = tmp_path / "site" / "lerobot"
    (package / "envs").mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError")
    (package / "envs" / "toy_config.json").write_text(LEROBOTS)
    monkeypatch.syspath_prepend(package.parent)
    assert instructions_beside(checkpoint) == instructions_beside("ORG/NAME") == GIVEN
    assert instructions_beside(checkpoint, "lerobot") == GIVEN
    assert resolve("lerobot", PATH, "other") == "lerobot"
    own = {**GIVEN, "reach-up": "Rise"}
    (checkpoint / "toy_config.json").write_text(json.dumps({"TASK_DESCRIPTIONS": own}))
    assert instructions_beside(checkpoint) == own


def test_random_weights_learned_no_instructions(checkpoint):
    assert resolve("checkpoint", PATH, "toy", None) == "own"


def test_a_run_is_planned_without_its_instructions(registry, checkpoint, tmp_path, snapshot):
    asked = [f"actor.model.model_path={checkpoint}", "env.train.sentences=checkpoint"]
    config = compose([*TOY, *asked, "env.eval.sentences=${env.train.sentences}"], registry=registry)
    (row,) = instruction_warnings.findings(config)
    assert (row["name"], row["status"]) == ("sentences", "missing")
    assert row["fix"] == "pip install --no-deps lerobot"
    for named in ("env.train.sentences=checkpoint", checkpoint, checkpoint.parent, "lerobot"):
        assert str(named) in row["detail"]
    assert row["detail"].replace(str(tmp_path), "TMP") == snapshot
    assert with_instructions(OWN, config.env.train.sentences, "env.train") is OWN
    assert instruction_warnings.findings(compose(TOY, registry=registry)) == []


# -- in a run -------------------------------------------------------------------------------------


def test_a_spec_with_other_instructions(refused):
    fewer = replace(OWN, tasks=OWN.tasks[1:3], instructions=OWN.instructions[1:3])
    instructions_of_two = with_instructions(fewer, GIVEN, "env.eval").all_instructions
    assert instructions_of_two == ("Go to the right", "Go up")
    assert with_instructions(OWN, "own", "env.eval") is OWN
    with refused(ConfigError, "'reach-up'", "1 more", "toy"):
        with_instructions(OWN, {"reach-left": "a", "reach-right": "b"}, "env.eval")
    misspelt = {task.replace("up", "upp"): sentence for task, sentence in GIVEN.items()}
    with refused(ConfigError, "'reach-up'", "'reach-upp'"):
        with_instructions(OWN, misspelt, "env.eval")
    varying = replace(OWN, episode_instructions=("go left in the kitchen", *OWN.instructions))
    with refused(ConfigError, "env.eval.sentences", "own"):
        with_instructions(varying, GIVEN, "env.eval")


def test_a_configuration_holds_the_instructions_themselves(registry, written, elsewhere):
    """A run can be resumed without the file, from any folder."""
    (elsewhere / "s.yaml").write_text(yaml.safe_dump(GIVEN))
    asked = [*TOY, "env.train.sentences=s.yaml", "env.eval.sentences=${env.train.sentences}"]
    config = compose(asked, registry=registry)
    assert config.env.train.sentences == config.env.eval.sentences == GIVEN
    (elsewhere / "s.yaml").unlink()
    again = load(written("config.yaml", to_yaml(config)), registry=registry)
    assert again.env == config.env
    facts = gather_facts(config, registry)
    assert facts.policy_env.all_instructions == tuple(GIVEN.values())
    assert dict(EnvFacts.from_spec(facts.envs["train"]).sentences) == GIVEN
    inline = compose([*TOY, "env.eval.sentences={reach-left: Go to the left}"], registry=registry)
    assert inline.env.eval.sentences == {"reach-left": "Go to the left"}


def test_a_recipe_may_require_instructions(registry, refused, tmp_path):
    """The value that the user gives is no difference to the recipe."""
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment/asks.yaml").write_text(
        "# @package _global_\ndefaults:\n  - override /env: toy\n  - override /model: toy\n"
        "  - override /algorithm: plain\n"
        "env:\n  train:\n    sentences: ???\n  eval:\n    sentences: ${env.train.sentences}\n"
    )
    asked = {"config_dirs": [tmp_path], "registry": registry}
    with refused(IncompleteRecipeError, "env.train.sentences"):
        compose(["experiment=asks"], **asked)
    own = compose(["experiment=asks", "env.train.sentences=own"], **asked)
    assert own.env.train.sentences == own.env.eval.sentences == "own"
    (tmp_path / "s.json").write_text(json.dumps(GIVEN))
    config = compose(["experiment=asks", f"env.train.sentences={tmp_path}/s.json"], **asked)
    assert config.env.eval.sentences == GIVEN
    assert recipe_of(config, registry) == config
