"""Commands of plugins are found, listed and refused as core's own are."""

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
    """`wander(body, module="acme_walks", plugin=PLUGIN)` installs a plugin with a command that does
    `body`; the plugins are found anew."""
    monkeypatch.setenv("RLCORE_PLUGINS", "acme_walks,acme_hikes,testing,ray")

    def make(body: str, module: str = "acme_walks", plugin: str = PLUGIN) -> None:
        source = plugin.replace("MODULE", module).replace("BODY", body)
        install(module.replace("_", "-"), module, source)
        load_plugins.cache_clear()

    yield make
    load_plugins.cache_clear()


def test_a_command_gets_its_arguments_and_returns_the_exit_code(wander, capsys):
    wander("print('walked', *arguments); return 3")
    assert main(["wander", "--far", "x=1"]) == 3
    assert capsys.readouterr().out == "walked --far x=1\n"


def test_a_command_is_listed_beside_ours(wander, capsys):
    wander("return 0")
    assert main(["--help"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line[:2] == "  "]
    assert listed[0] == "train" and listed[-1] == "wander"
    assert main(["plugins", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    commands = {row["name"]: row["distribution"] for row in rows if row["kind"] == "command"}
    assert commands["wander"] == "acme-walks" and commands["train"] == "rlcore"


def refusal(capsys: pytest.CaptureFixture[str], *words: str, code: int = 2) -> str:
    """The text of the one error that a command ends with."""
    assert main(words) == code
    error = capsys.readouterr().err
    assert error.count("error: ") == 1
    return error


def test_a_misspelt_command_is_met_with_the_nearest(wander, capsys):
    wander("return 0")
    error = refusal(capsys, "wandr")
    assert "'wandr'" in error and "'wander'" in error


def test_two_claims_are_an_error_that_names_both(wander, capsys, snapshot):
    wander("return 0")
    wander("return 0", "acme_hikes")
    error = refusal(capsys, "wander")
    assert "acme-hikes 1.0 and acme-walks 1.0" in error
    assert "RLCORE_BLOCK_PLUGINS=acme-walks" in error
    assert error == snapshot
    assert main(["plugins"]) == 1
    assert main(["plugins", "--json"]) == 1
    capsys.readouterr()
    assert main(["--help"]) == 0
    assert "wander" not in capsys.readouterr().out
    assert main(["doctor"]) == 1
    printed = capsys.readouterr().out
    assert "BAD      command wander (acme-hikes 1.0): " in printed


def test_a_command_of_ours_cannot_be_taken_over_unseen(wander, capsys):
    wander("return 0", plugin=PLUGIN.replace('"wander"', '"eval"'))
    error = refusal(capsys, "eval")
    assert "command 'eval'" in error and "rlcore " in error and "acme-walks 1.0" in error
    assert "RLCORE_BLOCK_PLUGINS=acme-walks" in error


@pytest.mark.parametrize(
    ("written", "instead", "named"),
    [
        ("(0, 1)", "(0, 2)", ["plugin 'acme_walks'", "0.2"]),
        ('"MODULE:main"', '"MODULE"', ["command 'wander'", "target"]),
        ('"command"', '"comand"', ["component 'wander'", "kind"]),
        ("MODULE:main", "acme_nowhere:main", ["acme_nowhere:main"]),
    ],
)
def test_a_command_of_a_bad_plugin_names_the_plugin_and_the_reason(
    wander, capsys, written: str, instead: str, named: list[str]
):
    wander("return 0", plugin=PLUGIN.replace(written, instead))
    error = refusal(capsys, "wander")
    assert not [word for word in named if word not in error]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("import rlcore.contracts.errors as e; raise e.ConfigError('no path', hint='walk')", 2),
        ("raise PermissionError(13, 'Permission denied', '/hut')", 2),
        ("return None", 1),
    ],
    ids=["user error", "permission", "no exit code"],
)
def test_an_error_of_a_command_is_shown_as_ours(wander, capsys, snapshot, body: str, code: int):
    wander(body)
    error = refusal(capsys, "wander", code=code)
    assert error == snapshot and "Traceback" not in error


def test_an_interrupted_command_ends_as_ours(wander, capsys):
    wander("raise KeyboardInterrupt")
    assert main(["wander"]) == 130
    assert capsys.readouterr().err == "rlcore: interrupted\n"


@pytest.mark.parametrize("error", ["ZeroDivisionError", "TimeoutError"])
def test_any_other_error_of_a_command_names_its_plugin_with_a_traceback(wander, capsys, error: str):
    wander(f"raise {error}('lost')")
    text = refusal(capsys, "wander", code=1)
    first, second, *_ = text.splitlines()
    assert first.startswith("error: command 'wander' of acme-walks 1.0")
    assert f"{error}: lost" in first
    assert second.startswith("Traceback") and f"{error}: lost\n  hint: " in text
    assert "rlcore/cli" not in text


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
    assert "'runner.seed'" in refusal(capsys, "wander", "env=toy", "runner.sead=1")
