"""The command in this process: its output, its errors and its exit codes."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

import rlcore
from rlcore.cli.main import main
from rlcore.config.schema import RunConfig
from rlcore.contracts.errors import RunWarning, WorkerError
from rlcore.plugins.registry import load_plugins
from rlcore.training.assembly import Assembly

COLLECT = ["collect", "env=toy", "cluster.component_placement={env: 0, rollout: 0, actor: 0}"]


@dataclass
class Loop:
    """A stand-in for rlcore.training that records its calls."""

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


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The text of a refused command, which prints nothing else."""
    assert main(words) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and "Traceback" not in printed.err
    return printed.err


def test_an_unknown_command(capsys):
    error = refusal(capsys, "trian")
    assert "'trian'" in error and "'train'" in error
    assert error.endswith("\n  hint: rlcore help\n")


def test_plugins_as_json(capsys):
    assert main(["plugins", "--json"]) == 0
    rows = {(row["kind"], row["name"]): row for row in json.loads(capsys.readouterr().out)}
    toy = rows["env", "toy"]
    assert (toy["distribution"], toy["version"]) == ("rlcore-testing", rlcore.__version__)
    assert (toy["status"], toy["reason"]) == ("ok", "")


def test_the_configuration_reaches_the_loop(loop, capsys):
    assert main([*COLLECT, "runner.seed=7"]) == 0
    (config,) = loop.configs
    assert (config.runner.seed, config.env.train.env_type) == (7, "toy")


@pytest.mark.parametrize(
    ("word", "named"), [("runner.sead=7", "'runner.seed'"), ("runner.seed=-3", "-3")]
)
def test_a_wrong_value_is_refused_before_the_loop(loop, capsys, snapshot, word, named):
    error = refusal(capsys, *COLLECT, word)
    assert named in error and error == snapshot
    assert loop.configs == []


def test_errors_of_the_run_keep_their_exit_code(loop, capsys):
    loop.error = WorkerError("env worker 0 died")
    assert main(COLLECT) == 1
    loop.error = KeyboardInterrupt()
    assert main(COLLECT) == 130
    assert capsys.readouterr().err == "error: env worker 0 died\nrlcore: interrupted\n"


def test_a_plugin_that_leaves_is_named(loop, capsys):
    loop.error = SystemExit(0)
    assert main(["train", "env=toy", "model=toy", "algorithm=ppo"]) == 2
    error = capsys.readouterr().err
    assert "sys.exit(0)" in error and "test_main.py" in error


def test_a_bug_keeps_its_traceback(loop):
    loop.error = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        main(["eval", "model=toy", *COLLECT[1:]])


def test_a_dry_run_shows_the_plan_and_starts_nothing(loop, capsys):
    assert main([*COLLECT, "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert loop.configs == []
    assert "env_type: toy" not in printed and "--cfg job" in printed.splitlines()[-1]
    assert "rollout+actor" in printed


def test_cfg_prints_yaml_only(loop, capsys):
    assert main([*COLLECT, "--cfg", "job"]) == 0
    assert capsys.readouterr().out.startswith("cluster:\n")
    assert loop.configs == []


def test_help_of_a_key(capsys):
    assert main(["train", "--help", "runner.seed"]) == 0
    assert capsys.readouterr().out.startswith("  runner.seed: int = 0 [at least 0]\n      ")
    assert main(["train", "--help", "plugins.tools"]) == 0
    assert "  plugins.tools.report: bool = true" in capsys.readouterr().out


def test_help_of_tasks_lists_those_of_the_env(capsys):
    assert main(["train", "env=toy", "env.train.tasks=[x]", "--help", "env.train.tasks"]) == 0
    listed = "toy: reach-left, reach-right, reach-up, reach-down"
    assert capsys.readouterr().out.endswith(f"\n      {listed}\n")
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
        printed = capsys.readouterr().out
        assert printed.startswith("rlcore train: ") and "runner.max_epochs: int = 12" in printed
    assert main(["help", "help"]) == main(["help", "--json"]) == 0
    capsys.readouterr()
    assert "'trian'" in refusal(capsys, "help", "trian")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("train --help quickstrat", "'quickstart'"),
        ("train --help runner.sed", "'runner.seed'"),
        ("eval no_folder --help runner.seed", "'no_folder'"),
    ],
)
def test_help_of_an_unknown_key_or_recipe_is_refused(capsys, words: str, named: str):
    assert named in refusal(capsys, *words.split())


def test_help_shows_the_values_of_a_choice(capsys):
    assert main(["collect", "env=toy", "--help", "env.eval.split"]) == 0
    assert "env.eval.split: str = heldout" in capsys.readouterr().out


def test_old_spellings_warn_in_one_line(loop, capsys):
    assert main([*COLLECT, "fsdp.sharding_strategy=no_shard"]) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "warning: fsdp" in line]
    assert len(lines) == 1 and lines[0].endswith("actor.fsdp_config")


# -- what the machine lacks -----------------------------------------------------------------

SICK = """
    from rlcore import hookimpl
    from rlcore.contracts.specs import ComponentSpec
    RLCORE_API = (0, 1)

    @hookimpl
    def rlcore_components():
        return COMPONENTS

    @hookimpl
    def rlcore_doctor(config):
        return [{"name": "GL", "status": "missing", "detail": "no EGL", "fix": "apt-get egl"}]
"""


@pytest.fixture
def sick_plugin(install, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """`sick_plugin(components)` installs a plugin whose doctor misses something."""
    monkeypatch.setenv("RLCORE_PLUGINS", "acme_sick,testing,ppo,ray,policy_gradient")

    def make(components: str) -> None:
        install("acme-sick", "acme_sick", SICK.replace("COMPONENTS", components))
        load_plugins.cache_clear()

    yield make
    load_plugins.cache_clear()


def test_a_finding_of_a_plugin_without_components_ends_every_run(sick_plugin, loop, capsys):
    sick_plugin("[]")
    assert main(["doctor"]) == 1
    printed = capsys.readouterr().out
    assert "missing  GL: no EGL\n" in printed and "fix: apt-get egl\n" in printed
    error = refusal(capsys, *COLLECT)
    assert "GL: no EGL" in error and error.endswith("\n  hint: apt-get egl\n")
    assert loop.configs == []


def test_a_plugin_whose_components_a_run_does_not_use_is_not_asked(sick_plugin, loop):
    sick_plugin('[ComponentSpec("env", "sickly", "x:y")]')
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
    ("error", "named"),
    [
        (PermissionError(13, "Permission denied", "/runs/it"), "/runs/it: Permission denied"),
        (OSError(28, "No space left on device"), "No space left on device"),
    ],
    ids=["refused", "full"],
)
def test_a_failure_of_the_file_system_is_one_error(
    loop: Loop, capsys, words: list[str], then: str, error: OSError, named: str
):
    """Where the run can be resumed the hint names `rlcore resume`, else the command."""
    loop.error = error
    text = refusal(capsys, *words)
    first, hint = text[text.index("error: ") :].splitlines()
    assert first.endswith(named)
    assert hint.startswith("  hint: ") and hint.endswith(then)


class PluginWarning(RunWarning):
    """A plugin's."""


def test_a_warning_for_the_user_is_one_line_whoever_gives_it(monkeypatch, capsys):
    def run(assembly: Assembly) -> None:
        warnings.warn("look here", PluginWarning, stacklevel=1)
        warnings.warn("mind the step", stacklevel=1)

    monkeypatch.setattr("rlcore.api.launch.load_target", lambda target: run)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert main(COLLECT) == 0
    printed = capsys.readouterr().err
    assert "warning: look here\n" in printed and "UserWarning: mind the step\n" in printed
