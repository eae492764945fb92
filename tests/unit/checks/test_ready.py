"""Everything in a run's way at once, in every command."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from rlcore.checks import resources, run
from rlcore.checks.doctor_rows import Finding
from rlcore.checks.ready import Purpose, find_obstacles, require
from rlcore.cli import doctor
from rlcore.cli.main import main
from rlcore.config.compose import IncompleteRecipeError, MissingValueError, compose
from rlcore.config.warning import ConfigWarning
from rlcore.contracts.errors import AssetError, ConfigError, UserError
from rlcore.contracts.hookspecs import hookimpl
from rlcore.plugins import extras
from rlcore.plugins.registry import load_plugins

WORDS = [
    *("env=toy", "model=toy", "algorithm=ppo", "cluster.backend=local"),
    "cluster.component_placement={env: '0:0', rollout: '0:0', actor: '0:0'}",
    *("actor.global_batch_size=16", "actor.micro_batch_size=16"),
]
LEFT_OPEN = """# @package _global_
defaults:
  - override /env: toy
  - override /model: toy
  - override /algorithm: ppo
env:
  train:
    sentences: ???
  eval:
    sentences: ${env.train.sentences}
actor:
  model:
    model_path: ???
"""


@pytest.fixture
def lacking(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without the package of a tracker, and without what a plugin asks for."""
    known = {name: place for name, place in extras.folders().items() if name != "wandb"}

    @hookimpl
    def rlcore_doctor(config):  # type: ignore[no-untyped-def]
        return [
            {"name": "GL", "status": "missing", "detail": "no EGL", "fix": "apt-get egl"},
            {"name": "GL", "status": "missing", "detail": "no GLX", "fix": "apt-get egl"},
            {"name": "driver", "status": "warning", "detail": "old", "fix": "apt-get driver"},
            {"name": "code", "status": "ok", "detail": "/code", "fix": ""},
        ]

    module = ModuleType("sick")
    vars(module).update(rlcore_doctor=rlcore_doctor)
    manager = load_plugins().manager
    manager.register(module, name="sick")
    monkeypatch.setattr(extras, "folders", lambda: known)
    free = SimpleNamespace(free=2**40)  # others write meanwhile
    monkeypatch.setattr(resources.shutil, "disk_usage", lambda place: free)
    monkeypatch.setattr(doctor, "_kernels", lambda: resources.row("kernels", ""))
    yield
    manager.unregister(module)


def flat(text: str) -> str:
    return " ".join(text.split())


def test_a_run_ends_by_all_of_them_at_once(lacking: None, elsewhere: Path, capsys) -> None:
    words = ["runner.logger.logger_backends=[wandb]", "actor.model.model_path=/nowhere"]
    assert main(["train", *WORDS, *words, "actor.global_batch_size=17"]) == 2
    said = capsys.readouterr().err
    lines = said[said.index("error: ") :].splitlines()
    assert lines == [
        "error: 4 things keep this run from starting:",
        "actor.model.model_path must be an existing folder, got '/nowhere'",
        lines[2],
        f"  fix: {run.EXPLAINED}",
        "runner.logger.logger_backends: tracker 'wandb' needs wandb, not installed",
        f"  fix: {extras.installing(['wandb'])}",
        "this machine lacks GL: no EGL",
        "  fix: apt-get egl",
    ]
    assert lines[2].startswith("actor.global_batch_size must be ")
    assert not list(elsewhere.iterdir())


def test_doctor_and_dry_run_say_the_same(lacking: None, elsewhere: Path, capsys) -> None:
    words = [*WORDS, "runner.logger.logger_backends=[wandb]", "actor.model.model_path=/nowhere"]
    assert main(["doctor", *words]) == 1
    rows = capsys.readouterr().out.splitlines()
    assert rows[:2] == [
        "refused  actor.model.model_path must be an existing folder, got '/nowhere'",
        f"         fix: {run.EXPLAINED}",
    ]
    assert rows[2].startswith("missing  runner.logger.logger_backends: tracker 'wandb' needs ")
    assert rows[-1] == "3 missing, 1 warning"
    assert [row[:18] for row in rows[4:-1] if not row.startswith("ok ")] == [
        "missing  GL: no EG", "         fix: apt-", "warning  driver: o", "         fix: apt-",
    ]  # fmt: skip
    assert main(["train", *words, "--dry-run"]) == 2  # no machine would start it
    said = capsys.readouterr()
    rows = [row for row in rows[4:-1] if "kernels" not in row]
    assert said.out.splitlines()[-len(rows) - 1 : -1] == rows
    assert "env=toy model=toy" in said.out and "rollout+actor" in said.out
    assert "got '/nowhere'\n" in said.err and "tracker 'wandb' needs wandb" in said.err
    assert "GL" not in said.err


def test_what_only_warns_is_said_to_warn_and_ends_nothing(lacking: None, elsewhere: Path) -> None:
    config = compose(WORDS)
    with pytest.warns(ConfigWarning, match="random weights"):
        _, found = find_obstacles(config, load_plugins())
    assert [one.text for one in found if one.status == "warning"] == ["driver: old"]
    require([one for one in found if one.status in ("warning", "ok")])


def test_one_alone_is_the_error_that_it_is() -> None:
    alone = ConfigError("x must be 1, got 2", hint="rlcore train --help x")
    with pytest.raises(ConfigError) as caught:
        require([Finding("ok", "all well"), Finding("refused", alone.message, "", alone)])
    assert caught.value is alone
    lacks = AssetError("GL: none", hint="apt-get egl")
    with pytest.raises(UserError, match="2 things keep this run from starting:\nx must be 1"):
        require([Finding("refused", "", "", alone), Finding("missing", "", "", lacks)])
    require([Finding("missing", "", "", lacks)], but=(AssetError,))


@pytest.fixture
def left_open(elsewhere: Path) -> list[str]:
    """The words of a recipe with keys that must be given."""
    recipe = elsewhere / "mine" / "experiment" / "open.yaml"
    recipe.parent.mkdir(parents=True)
    recipe.write_text(LEFT_OPEN)
    return ["open", "--config-dir", "mine", *WORDS[3:]]


def test_keys_that_must_be_given_hide_nothing(lacking: None, left_open: list[str], capsys) -> None:
    assert main(["train", *left_open, "actor.global_batch_size=17"]) == 2
    said = capsys.readouterr().err
    wanted = ["4 things", "env.train.sentences must be given: ", "actor.model.model_path must be",
              "actor.global_batch_size must", "this machine lacks GL: no EGL"]  # fmt: skip
    at = [said.index(one) for one in wanted]
    assert (
        at == sorted(at) and "env.eval.sentences" not in said and "starts from random" not in said
    )
    assert main(["train", *left_open, "--dry-run"]) == 0  # may be given later
    said = capsys.readouterr().out
    assert "missing  env.train.sentences must be given: " in said and "rollout+actor" in said
    assert main(["train", *left_open, "--cfg", "job"]) == 2


def test_a_draft_has_the_defaults_of_keys_that_must_be_given(left_open: list[str]) -> None:
    words = ["experiment=open", *WORDS[3:]]
    with pytest.raises(IncompleteRecipeError) as caught:
        compose(words, config_dirs=["mine"])
    assert [type(one) for one in caught.value.errors] == [MissingValueError, MissingValueError]
    draft = caught.value.draft
    assert draft.env.eval.sentences == "own" and draft.actor.model.model_path is None
    assert compose(words, config_dirs=["mine"], draft=True) == draft


def test_sentences_that_can_not_be_read_hide_nothing(lacking: None, elsewhere, capsys) -> None:
    assert main(["train", *WORDS, "env.train.sentences=nowhere.json"]) == 2
    said = flat(capsys.readouterr().err)
    assert "env.train.sentences: the sentences in 'nowhere.json' can't be read" in said
    assert "this machine lacks GL: no EGL" in said


def test_a_placement_that_can_not_be_hides_nothing(lacking: None, elsewhere, capsys) -> None:
    words = [*WORDS, "cluster.num_nodes=3", "actor.model.model_path=/nowhere"]
    assert main(["train", *words]) == 2
    said = flat(capsys.readouterr().err)
    assert "cluster.num_nodes is 3, but 1 joined" in said and "got '/nowhere'" in said
    assert "this machine lacks GL" in said


def test_a_number_out_of_its_range_is_judged_alone(lacking: None, elsewhere, capsys) -> None:
    """What goes together with it can't be judged, a plugin's finding can."""
    assert main(["train", *WORDS, "algorithm.group_size=-1", "actor.global_batch_size=17"]) == 2
    said = capsys.readouterr().err
    assert "algorithm.group_size must be at least 1, got -1" in said
    assert "actor.global_batch_size" not in said and "this machine lacks GL" in said


def test_of_components_alone_only_the_machine_is_judged(elsewhere: Path, capsys) -> None:
    """Their defaults need not go together on it."""
    main(["doctor", "env=toy", "env.train.total_num_envs=7", "env.eval.total_num_envs=3"])
    assert "refused" not in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore::rlcore.config.warning.ConfigWarning")
def test_only_who_makes_a_policy_needs_its_checkpoint(elsewhere: Path) -> None:
    config = compose([*WORDS, "actor.model.model_path=somebody/something"])
    made: dict[Purpose, list[str]] = {"updates": ["missing"], "demonstrations": []}
    for makes, wanted in made.items():
        _, found = find_obstacles(config, load_plugins(), purpose=makes)
        named = [one.status for one in found if one.text.startswith("actor.model.model_path: ")]
        assert named == wanted


@pytest.mark.filterwarnings("ignore::rlcore.config.warning.ConfigWarning")
def test_a_command_that_makes_no_updates_gives_no_time_of_them(elsewhere: Path, capsys) -> None:
    for verb, timed in ("train", True), ("sft", False):
        main([verb, *WORDS, "--dry-run"])
        said = capsys.readouterr().out
        assert " disk: " in said and ("ok       time: " in said) == timed, verb
