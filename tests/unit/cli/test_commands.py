"""Commands of plugins: found, listed and answered for as core's own are."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rlcore.cli.main import main
from rlcore.plugins.registry import load_plugins

PLUGIN = """
    from rlcore import hookimpl
    from rlcore.contracts.specs import ComponentSpec
    RLCORE_API = (0, 1)

    @hookimpl
    def rlcore_components():
        return [ComponentSpec("command", "wander", "MODULE:main", "walk about: wander WORD ...")]

    def main(arguments):
        BODY
"""
Wander = Callable[..., None]


@pytest.fixture
def wander(install, monkeypatch: pytest.MonkeyPatch) -> Iterator[Wander]:
    """`wander(body, module="acme_walks", said=PLUGIN)` installs a plugin with a command that does
    `body`; the plugins are found anew."""
    monkeypatch.setenv("RLCORE_PLUGINS", "acme_walks,acme_hikes,testing,ray")

    def make(body: str, module: str = "acme_walks", said: str = PLUGIN) -> None:
        source = said.replace("MODULE", module).replace("BODY", body)
        install(module.replace("_", "-"), module, source)
        load_plugins.cache_clear()

    yield make
    load_plugins.cache_clear()


def test_it_is_called_with_its_arguments_and_its_code_is_the_commands(wander, capsys):
    wander("print('walked', *arguments); return 3")
    assert main(["wander", "--far", "x=1"]) == 3
    assert capsys.readouterr().out == "walked --far x=1\n"


def test_it_is_listed_beside_ours(wander, capsys):
    wander("return 0")
    assert main(["--help"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line[:2] == "  "]
    assert listed[0] == "train" and listed[-1] == "wander"
    assert main(["plugins", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    commands = {row["name"]: row["distribution"] for row in rows if row["kind"] == "command"}
    assert commands["wander"] == "acme-walks" and commands["train"] == "rlcore"


def test_a_slip_is_answered_over_all_commands(wander, capsys):
    wander("return 0")
    assert main(["wandr"]) == 2
    assert "no command 'wandr'. Did you mean 'wander'?" in capsys.readouterr().err


def test_two_claims_are_an_error_that_names_both(wander, capsys):
    wander("return 0")
    wander("return 0", "acme_hikes")
    assert main(["wander"]) == 2
    said = capsys.readouterr().err
    assert "command 'wander' is claimed by acme-hikes 1.0 and acme-walks 1.0" in said
    assert "RLCORE_BLOCK_PLUGINS=acme-walks" in said
    assert main(["plugins"]) == 1
    assert main(["plugins", "--json"]) == 1
    capsys.readouterr()
    assert main(["--help"]) == 0
    assert "wander" not in capsys.readouterr().out
    assert main(["doctor"]) == 1
    said = capsys.readouterr().out
    assert "BAD      command wander (acme-hikes 1.0): command 'wander' is claimed by" in said


def test_a_command_of_ours_cannot_be_taken_over_unseen(wander, capsys):
    wander("return 0", said=PLUGIN.replace('"wander"', '"eval"'))
    assert main(["eval"]) == 2
    said = capsys.readouterr().err
    assert "command 'eval' is claimed by rlcore " in said and " and acme-walks 1.0\n" in said
    assert "RLCORE_BLOCK_PLUGINS=acme-walks" in said


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("(0, 1)", "(0, 2)"), "plugin 'acme_walks' ACME is BAD: asks for plugin API 0.2"),
        (('"MODULE:main"', '"MODULE"'), "command 'wander' ACME is BAD: target must read"),
        (('"command"', '"comand"'), "component 'wander' ACME is BAD: kind must be one of"),
    ],
)
def test_where_its_plugin_is_bad_it_says_so(wander, capsys, change: tuple[str, str], said: str):
    wander("return 0", said=PLUGIN.replace(*change))
    assert main(["wander"]) == 2
    assert said.replace("ACME", "(acme-walks 1.0)") in capsys.readouterr().err


def test_a_module_that_is_not_there(wander, capsys):
    wander("return 0", said=PLUGIN.replace("MODULE:main", "acme_nowhere:main"))
    assert main(["wander"]) == 2
    assert "acme_nowhere:main can't be loaded: No module named" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        (
            "import rlcore.contracts.errors as e; raise e.ConfigError('no path', hint='walk')",
            2,
            "error: no path\n  hint: walk\n",
        ),
        ("raise PermissionError(13, 'Permission denied', '/hut')", 2,
         "error: can't read or write /hut: Permission denied\n"
         "  hint: once that is fixed, give the command again\n"),
        ("raise KeyboardInterrupt", 130, "rlcore: interrupted\n"),
        ("return None", 1,
         "error: command 'wander' of acme-walks 1.0 must return its exit code, a whole number, "
         "got None\n"),
    ],
)  # fmt: skip
def test_its_errors_are_shown_as_ours(wander, capsys, body: str, code: int, said: str):
    wander(body)
    assert main(["wander"]) == code
    shown = capsys.readouterr().err
    assert shown.startswith(said) and "Traceback" not in shown


@pytest.mark.parametrize("error", ["ZeroDivisionError('lost')", "TimeoutError('lost')"])
def test_any_other_error_names_its_plugin(wander, capsys, error: str):
    wander(f"raise {error}")
    assert main(["wander"]) == 1
    said = capsys.readouterr().err
    start = f"error: command 'wander' of acme-walks 1.0 failed: {error.split('(')[0]}: lost ("
    assert said.startswith(start) and ")\nTraceback" in said
    assert f"{error.split('(')[0]}: lost\n  hint: " in said
    assert said.count("error: ") == 1 and "rlcore/cli" not in said


def test_a_command_may_take_a_configuration_as_ours_do(wander, capsys, elsewhere: Path):
    wander(
        "from rlcore.cli.verbs import Verb, run_verb; "
        "return run_verb(Verb('wander', 'acme_walks:walk', require=('env',)), arguments)\n\n"
        "    def walk(assembly): print('walked in', assembly.config.env.train.env_type)"
    )
    assert main(["wander", "env=toy"]) == 0
    assert capsys.readouterr().out == "walked in toy\n"
    assert main(["wander", "env=toy", "--dry-run"]) == 0
    assert "env=toy" in capsys.readouterr().out
    assert main(["wander", "--help"]) == 0
    assert capsys.readouterr().out.startswith("rlcore wander: walk about: wander WORD ...\n")
    assert main(["wander", "env=toy", "runner.sead=1"]) == 2
    assert "Did you mean 'runner.seed'?" in capsys.readouterr().err
