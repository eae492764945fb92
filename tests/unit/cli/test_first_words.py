"""Whatever a new user types, a command answers with one error and its hint."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlcore.cli.main import main

OF_A_RUN = ("resume", "eval", "replay", "export", "report")
WORDS = [
    *("", " ", "nowhere", "no/where", "/dev/null", "~nobody-of-this-name/run", "x" * 300),
    *("--nope", "=", "=x", "a=", "~", "@", "\u00fc", '"', "'a", "{", "$x", "runner.seed"),
    *("env=", "env=toy", "runner.sead=1", "runner.seed=x", "k=" + "y" * 10_000, "experiment="),
]


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The text of a refused command: one error with a hint, and no traceback."""
    assert main(words) == 2, words
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: ") and printed.err.count("error: ") == 1
    assert "\n  hint: " in printed.err and "Traceback" not in printed.err
    return printed.err


@pytest.mark.quick(60)
@pytest.mark.parametrize("word", WORDS, ids=lambda word: word[:12])
@pytest.mark.parametrize("verb", OF_A_RUN)
def test_a_wrong_run_is_refused(elsewhere: Path, capsys, verb: str, word: str):
    refusal(capsys, verb, word, *(["dest"] if verb == "export" else []))
    assert list(elsewhere.iterdir()) == []


@pytest.mark.quick(40)
@pytest.mark.parametrize("word", WORDS, ids=lambda word: word[:12])
@pytest.mark.parametrize("verb", ["train", "collect", "sft"])
def test_a_wrong_recipe_is_refused(elsewhere: Path, capsys, verb: str, word: str):
    if (verb, word) != ("collect", "env=toy"):  # which is all that it needs
        refusal(capsys, verb, word)
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("word", WORDS[7:], ids=lambda word: word[:12])
def test_a_wrong_name_is_refused(elsewhere: Path, capsys, word: str):
    assert word in refusal(capsys, "plugins", word)


@pytest.mark.parametrize("word", WORDS, ids=str)
def test_a_wrong_command_is_refused(capsys, word: str):
    assert "command" in refusal(capsys, word)


def test_a_misspelt_run_is_met_with_the_runs_there_are(elsewhere: Path, capsys):
    run = elsewhere / "logs" / "quickstart"
    run.mkdir(parents=True)
    (run / "config.yaml").touch()
    for verb, word in (
        ("resume", "logs/quickstrat"),
        ("resume", "quickstarts"),
        ("resume", "logs"),
        ("report", "logs"),
    ):
        assert str(run) in refusal(capsys, verb, word)


def test_a_key_without_its_value(capsys):
    assert "runner.seed=VALUE" in refusal(capsys, "train", "runner.seed")


@pytest.mark.parametrize(
    ("word", "named"),
    [
        ("runner.logger.log_path=" + "y/" * 3000, "runner.logger.log_path"),
        ("runner.logger.experiment_name=" + "x" * 300, "xxx"),
        ("actor.model.model_path=" + "x" * 300, "actor.model.model_path"),
        ("modle=toy", "'model'"),
        ("--config-dir=", "''"),
    ],
    ids=lambda text: text[:20],
)
def test_an_unusable_value_is_a_short_error(elsewhere: Path, capsys, word: str, named: str):
    assert main(["train", "env=toy", "model=toy", "algorithm=ppo", word]) == 2
    error = capsys.readouterr().err
    assert named in error and error.count("error: ") == 1 and len(error) < 1000
    assert list(elsewhere.iterdir()) == []
