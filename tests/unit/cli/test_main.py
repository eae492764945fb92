"""The command in this process: what is printed where, and the exit codes."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass, field
from types import ModuleType

import pytest

import rlcore
from rlcore.cli.main import main
from rlcore.config.schema import RunConfig
from rlcore.contracts.errors import RunWarning, WorkerError
from rlcore.contracts.specs import ComponentSpec
from rlcore.plugins.registry import Component, load_plugins
from rlcore.training.assembly import Assembly

COLLECT = ["collect", "env=toy", "cluster.component_placement={env: 0, rollout: 0, actor: 0}"]


@dataclass
class Loop:
    """Stands for rlcore.training: remembers what it was called with."""

    configs: list[RunConfig] = field(default_factory=list)
    error: BaseException | None = None

    def run(self, assembly: Assembly) -> None:
        self.configs.append(assembly.config)
        if self.error is not None:
            raise self.error


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Loop:
    made = Loop()
    monkeypatch.setattr("rlcore.api.launch.load_target", lambda target: made.run)
    return made


def test_version_and_help(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"rlcore {rlcore.__version__}\n"
    assert main([]) == 0
    assert "usage: rlcore COMMAND" in capsys.readouterr().out


def test_an_unknown_command(capsys):
    assert main(["trian"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(
        "error: there is no command 'trian'. Did you mean 'train'? There are "
    )
    assert said.err.endswith("\n  hint: rlcore help\n")


def test_plugins_as_json(capsys):
    assert main(["plugins", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    toy = {
        "kind": "env",
        "name": "toy",
        "distribution": "rlcore-testing",
        "version": rlcore.__version__,
        "status": "ok",
        "reason": "",
    }
    assert toy in rows


def test_the_configuration_reaches_the_loop(loop, capsys):
    assert main([*COLLECT, "runner.seed=7"]) == 0
    (config,) = loop.configs
    assert (config.runner.seed, config.env.train.env_type) == (7, "toy")


def test_an_error_is_a_sentence_and_nothing_starts(loop, capsys):
    assert main([*COLLECT, "runner.sead=7"]) == 2
    assert loop.configs == []
    said = capsys.readouterr().err
    assert said.startswith(
        "error: unknown key 'runner.sead'. Did you mean 'runner.seed'?\n  hint: "
    )
    assert "Traceback" not in said


def test_checks_come_before_the_loop(loop, capsys):
    assert main([*COLLECT, "runner.seed=-3"]) == 2
    assert loop.configs == []
    assert "runner.seed must be at least 0, got -3" in capsys.readouterr().err


def test_errors_of_the_run_keep_their_exit_code(loop, capsys):
    loop.error = WorkerError("env worker 0 died")
    assert main(COLLECT) == 1
    loop.error = KeyboardInterrupt()
    assert main(COLLECT) == 130
    assert capsys.readouterr().err == "error: env worker 0 died\nrlcore: interrupted\n"


def test_a_plugin_that_leaves_is_named(loop, capsys):
    loop.error = SystemExit(0)
    assert main(["train", "env=toy", "model=toy", "algorithm=ppo"]) == 2
    said = capsys.readouterr().err
    assert "error: the run was ended by sys.exit(0) in run, line " in said
    assert "test_main.py" in said


def test_a_bug_keeps_its_traceback(loop):
    loop.error = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        main(["eval", "model=toy", *COLLECT[1:]])


def test_a_dry_run_shows_the_plan_and_starts_nothing(loop, capsys):
    assert main([*COLLECT, "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert loop.configs == []
    assert "env_type: toy" not in said and said.endswith("--cfg job in place of --dry-run\n")
    assert "rollout+actor" in said


def test_cfg_prints_yaml_only(loop, capsys):
    assert main([*COLLECT, "--cfg", "job"]) == 0
    assert capsys.readouterr().out.startswith("cluster:\n")
    assert loop.configs == []


def test_help_of_a_key(capsys):
    assert main(["train", "--help", "runner.seed"]) == 0
    assert capsys.readouterr().out == (
        "  runner.seed: int = 0 [at least 0]\n      root of all randomness\n"
    )
    assert main(["train", "--help", "plugins.tools"]) == 0
    assert "  plugins.tools.report: bool = true" in capsys.readouterr().out
    assert main(["train", "--help", "runner.sed"]) == 2


def test_help_of_tasks_lists_those_of_the_env(capsys):
    assert main(["train", "env=toy", "env.train.tasks=[x]", "--help", "env.train.tasks"]) == 0
    listed = "toy: reach-left, reach-right, reach-up, reach-down"
    assert capsys.readouterr().out.endswith(f"null: all\n      {listed}\n")
    assert main(["train", "--help", "env.train.tasks"]) == 0
    assert "reach" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        "train {recipe} --help runner.max_epochs",
        "train {recipe} runner.max_epochs --help",
        "train --help runner.max_epochs {recipe}",
        "train --help {recipe} runner.max_epochs",
        "help train {recipe} runner.max_epochs",
    ],
)
def test_help_of_a_key_with_the_values_of_a_recipe(capsys, tmp_path, words: str):
    recipe = tmp_path / "experiment" / "mine.yaml"
    recipe.parent.mkdir()
    recipe.write_text(
        "# @package _global_\ndefaults: [{env: toy}]\n"
        "runner: {max_epochs: 7}\nactor: {model: {model_path: '???'}}\n"  # a key to be given
    )
    assert main(words.format(recipe=recipe).split()) == 0
    assert "runner.max_epochs: int = 7 [" in capsys.readouterr().out


def test_help_of_a_recipe_and_of_a_command(capsys):
    for words in (["train", "quickstart", "--help"], ["help", "train", "quickstart"]):
        assert main(words) == 0
        said = capsys.readouterr().out
        assert said.startswith("rlcore train: fine-tune") and "runner.max_epochs: int = 12" in said
    assert main(["help", "help"]) == main(["help", "--json"]) == 0
    assert main(["help", "trian"]) == 2
    assert "there is no command 'trian'" in capsys.readouterr().err


def test_help_of_what_is_neither_key_nor_recipe(capsys):
    assert main(["train", "--help", "quickstrat"]) == 2
    said = capsys.readouterr().err
    assert "unknown key 'quickstrat'. Did you mean 'quickstart'?" in said
    assert main(["eval", "no_folder", "--help", "runner.seed"]) == 2
    assert "there is no experiment 'no_folder'" in capsys.readouterr().err


def test_help_shows_the_values_of_a_choice(capsys):
    assert main(["collect", "env=toy", "--help", "env.eval.split"]) == 0
    assert "env.eval.split: str = heldout" in capsys.readouterr().out


def test_old_spellings_warn_in_one_line(loop, capsys):
    assert main([*COLLECT, "fsdp.sharding_strategy=no_shard"]) == 0
    assert "warning: fsdp is read as actor.fsdp_config\n" in capsys.readouterr().err


# -- assets ---------------------------------------------------------------------------------


@pytest.fixture
def sick_plugin(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A plugin, registered, whose doctor misses something."""
    from rlcore.contracts.hookspecs import hookimpl

    @hookimpl
    def rlcore_doctor(config):
        return [{"name": "GL", "status": "missing", "detail": "no EGL", "fix": "apt-get egl"}]

    module = ModuleType("sick")
    vars(module).update(rlcore_doctor=rlcore_doctor)
    manager = load_plugins().manager
    manager.register(module, name="sick")
    yield module
    manager.unregister(module)


def test_the_doctor_reports_and_fails(sick_plugin, capsys):
    assert main(["doctor"]) == 1
    said = capsys.readouterr().out
    assert "missing  GL: no EGL" in said
    assert "fix: apt-get egl" in said


def test_a_run_asks_the_plugins_it_uses_and_those_without_components(
    sick_plugin, loop, monkeypatch, capsys
):
    assert main(COLLECT) == 2
    assert capsys.readouterr().err == "error: this machine lacks GL: no EGL\n  hint: apt-get egl\n"
    assert loop.configs == []
    other = Component(ComponentSpec("env", "sickly", "x:y"), "sick", "acme-sick", "1.0")
    monkeypatch.setitem(load_plugins()._components, ("env", "sickly"), [other])
    assert main(COLLECT) == 0
    assert len(loop.configs) == 1


TRAIN = ["train", *COLLECT[1:], "model=toy", "algorithm=ppo"]
RESUME = "rlcore resume RUN continues from the last checkpoint"


@pytest.mark.parametrize(
    ("words", "then"),
    [(COLLECT, "give the command again"), (TRAIN, RESUME)],
    ids=["collect", "train"],
)
@pytest.mark.parametrize(
    ("error", "said", "first"),
    [
        (
            PermissionError(13, "Permission denied", "/runs/it"),
            "can't read or write /runs/it: Permission denied",
            "once that is fixed, ",
        ),
        (
            OSError(28, "No space left on device"),
            "can't write: No space left on device",
            "free some space; ",
        ),
    ],
    ids=["refused", "full"],
)
def test_what_the_file_system_refuses_is_one_error(
    loop: Loop, capsys, words: list[str], then: str, error: OSError, said: str, first: str
):
    """What can be resumed says so; for anything else the command is given again."""
    loop.error = error
    assert main(words) == 2
    shown = capsys.readouterr().err
    assert f"error: {said}\n  hint: {first}{then}\n" in shown
    assert "Traceback" not in shown


class TheirWarning(RunWarning):
    """A plugin's."""


def test_warnings_for_the_user_are_a_line_whoever_they_come_from(monkeypatch, capsys):
    def run(assembly: Assembly) -> None:
        warnings.warn("look here", TheirWarning, stacklevel=1)
        warnings.warn("mind the step", stacklevel=1)

    monkeypatch.setattr("rlcore.api.launch.load_target", lambda target: run)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert main(COLLECT) == 0
    said = capsys.readouterr().err
    assert "warning: look here\n" in said and "UserWarning: mind the step\n" in said
