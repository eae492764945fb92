"""All obstacles of a run are reported at once, by every command."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from rlcore.checks import resources, run
from rlcore.checks.doctor_rows import Finding
from rlcore.checks.ready import Purpose, find_obstacles, require
from rlcore.cli.main import main
from rlcore.config.compose import compose
from rlcore.config.layers import IncompleteRecipeError, MissingValueError
from rlcore.config.warning import ConfigWarning
from rlcore.contracts.errors import AssetError, ConfigError, UserError
from rlcore.contracts.hookspecs import hookimpl
from rlcore.plugins import extras
from rlcore.plugins.registry import load_plugins
from rlcore.rollout import batch_invariance

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
    monkeypatch.setattr(batch_invariance, "check_kernels", lambda rows: ((), "digest"))
    yield
    manager.unregister(module)


def error_lines(text: str) -> list[str]:
    return text[text.index("error: ") :].splitlines()


def test_a_run_ends_by_all_obstacles_at_once(lacking: None, elsewhere: Path, capsys) -> None:
    words = ["runner.logger.logger_backends=[wandb]", "actor.model.model_path=/nowhere"]
    assert main(["train", *WORDS, *words, "actor.global_batch_size=17"]) == 2
    first, *lines = error_lines(capsys.readouterr().err)
    assert "4 things" in first
    fix = f"  fix: {run.EXPLAINED}"
    fixes = [line for line in lines if line.startswith("  fix: ")]
    assert fixes == [fix, f"  fix: {extras.installing(['wandb'])}", "  fix: apt-get egl"]
    problems = [line for line in lines if line not in fixes]
    named = ("actor.model.model_path", "actor.global_batch_size", "'wandb'", "GL: no EGL")
    assert all(word in problem for word, problem in zip(named, problems, strict=True))
    assert not list(elsewhere.iterdir())


def test_doctor_and_dry_run_report_the_same(lacking: None, elsewhere: Path, capsys) -> None:
    words = [*WORDS, "runner.logger.logger_backends=[wandb]", "actor.model.model_path=/nowhere"]
    assert main(["doctor", *words]) == 1
    *rows, total = capsys.readouterr().out.splitlines()
    assert total == "3 missing, 1 warning"
    wrong = [row.split()[:2] for row in rows if not row.startswith(("ok ", "  "))]
    assert wrong == [
        ["refused", "actor.model.model_path"],
        ["missing", "runner.logger.logger_backends:"],
        ["missing", "GL:"],
        ["warning", "driver:"],
    ]
    assert main(["train", *words, "--dry-run"]) == 2  # no machine would start it
    printed = capsys.readouterr()
    of_doctor_alone = ("kernels", "components:", "versions:")
    machine = [row for row in rows[4:] if not any(word in row for word in of_doctor_alone)]
    assert printed.out.splitlines()[-len(machine) - 1 : -1] == machine
    assert "env=toy model=toy" in printed.out and "rollout+actor" in printed.out
    assert "'/nowhere'\n" in printed.err and "'wandb'" in printed.err and "GL" not in printed.err


def test_a_warning_ends_nothing(lacking: None, elsewhere: Path) -> None:
    config = compose(WORDS)
    with pytest.warns(ConfigWarning, match="random weights"):
        _, findings = find_obstacles(config, load_plugins())
    warnings = [finding for finding in findings if finding.status == "warning"]
    assert [finding.text for finding in warnings] == ["driver: old"]
    require([finding for finding in findings if finding.status in ("warning", "ok")])


def test_a_single_obstacle_is_raised_as_it_is(refused) -> None:
    alone = ConfigError("x must be 1, got 2", hint="rlcore train --help x")
    with refused(ConfigError, "x must be 1, got 2") as caught:
        require([Finding("ok", "all well"), Finding("refused", alone.message, "", alone)])
    assert caught.value is alone
    lacks = AssetError("GL: none", hint="apt-get egl")
    with refused(UserError, "2 things", "x must be 1", "GL: none"):
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
    error = capsys.readouterr().err
    keys = ("env.train.sentences", "actor.model.model_path", "actor.global_batch_size")
    places = [error.index(named) for named in ("4 things", *keys, "GL: no EGL")]
    assert places == sorted(places)
    assert "env.eval.sentences" not in error and "starts from random" not in error
    assert main(["train", *left_open, "--dry-run"]) == 0  # may be given later
    printed = capsys.readouterr().out
    assert "missing  env.train.sentences" in printed and "rollout+actor" in printed
    assert main(["train", *left_open, "--cfg", "job"]) == 2


def test_a_draft_has_the_defaults_of_keys_that_must_be_given(left_open: list[str]) -> None:
    words = ["experiment=open", *WORDS[3:]]
    with pytest.raises(IncompleteRecipeError) as caught:
        compose(words, config_dirs=["mine"])
    assert [type(error) for error in caught.value.errors] == [MissingValueError] * 2
    draft = caught.value.draft
    assert draft.env.eval.sentences == "own" and draft.actor.model.model_path is None
    assert compose(words, config_dirs=["mine"], draft=True) == draft


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["env.train.sentences=nowhere.json"], ["env.train.sentences", "'nowhere.json'"]),
        (
            ["cluster.num_nodes=3", "actor.model.model_path=/nowhere"],
            ["cluster.num_nodes is 3", "'/nowhere'"],
        ),
        # out of its range: what goes together with it can't be judged, a plugin's finding can
        (["algorithm.group_size=-1", "actor.global_batch_size=17"], ["algorithm.group_size"]),
    ],
)
def test_a_wrong_value_hides_no_other_obstacle(
    lacking: None, elsewhere: Path, capsys, words: list[str], named: list[str]
) -> None:
    assert main(["train", *WORDS, *words]) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert not [word for word in [*named, "GL: no EGL"] if word not in error]
    assert "actor.global_batch_size" not in error


def test_doctor_judges_only_the_machine_where_components_alone_are_named(
    elsewhere: Path, capsys
) -> None:
    """Their defaults need not go together on it."""
    main(["doctor", "env=toy", "env.train.total_num_envs=7", "env.eval.total_num_envs=3"])
    assert "refused" not in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore::rlcore.config.warning.ConfigWarning")  # random weights
@pytest.mark.parametrize(
    ("purpose", "statuses"), [("updates", ["missing"]), ("demonstrations", [])]
)
def test_only_runs_with_the_policy_need_its_checkpoint(
    elsewhere: Path, purpose: Purpose, statuses: list[str]
) -> None:
    config = compose([*WORDS, "actor.model.model_path=somebody/something"])
    _, findings = find_obstacles(config, load_plugins(), purpose=purpose)
    about_path = [each for each in findings if each.text.startswith("actor.model.model_path: ")]
    assert [finding.status for finding in about_path] == statuses


@pytest.mark.filterwarnings("ignore::rlcore.config.warning.ConfigWarning")  # random weights
@pytest.mark.parametrize(("verb", "has_updates"), [("train", True), ("sft", False)])
def test_only_a_command_with_updates_estimates_their_time(
    elsewhere: Path, capsys, verb: str, has_updates: bool
) -> None:
    main([verb, *WORDS, "--dry-run"])
    printed = capsys.readouterr().out
    assert " disk: " in printed and ("ok       time: " in printed) == has_updates
