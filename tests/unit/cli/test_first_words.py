"""What a stranger types first: each command answers with one sentence and what to do next."""

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


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What is said of a refused command; one error with a hint, and no traceback."""
    assert main(words) == 2, words
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("error: ") and said.err.count("error: ") == 1
    assert "\n  hint: " in said.err and "Traceback" not in said.err
    return said.err


@pytest.mark.quick(60)
@pytest.mark.parametrize("word", WORDS, ids=lambda word: word[:12])
@pytest.mark.parametrize("verb", OF_A_RUN)
def test_where_a_run_is_wanted(elsewhere: Path, capsys, verb: str, word: str):
    answer(capsys, verb, word, *(["dest"] if verb == "export" else []))
    assert list(elsewhere.iterdir()) == []


@pytest.mark.quick(40)
@pytest.mark.parametrize("word", WORDS, ids=lambda word: word[:12])
@pytest.mark.parametrize("verb", ["train", "collect", "sft"])
def test_where_a_recipe_is_wanted(elsewhere: Path, capsys, verb: str, word: str):
    if (verb, word) != ("collect", "env=toy"):  # which is all that it needs
        answer(capsys, verb, word)
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("word", WORDS[7:], ids=lambda word: word[:12])
def test_where_nothing_is_wanted(elsewhere: Path, capsys, word: str):
    assert f"{word}" in answer(capsys, "plugins", word)


@pytest.mark.parametrize("word", WORDS, ids=str)
def test_where_a_command_is_wanted(capsys, word: str):
    assert "there is no command" in answer(capsys, word)


def test_a_slip_in_the_name_of_a_run(elsewhere: Path, capsys):
    run = elsewhere / "logs" / "quickstart"
    run.mkdir(parents=True)
    (run / "config.yaml").touch()
    for word in ("logs/quickstrat", "quickstarts"):
        assert f"did you mean {run}?" in answer(capsys, "resume", word)
    assert f"the runs in it: {run}" in answer(capsys, "resume", "logs")
    assert f"the runs in it: {run}" in answer(capsys, "report", "logs")


def test_a_key_without_its_value(capsys):
    assert "a key is set by runner.seed=VALUE" in answer(capsys, "train", "runner.seed")


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("runner.logger.log_path=" + "y/" * 3000, "File name too long"),
        ("runner.logger.experiment_name=" + "x" * 300, "File name too long"),
        ("actor.model.model_path=" + "x" * 300, "File name too long"),
        ("modle=toy", "Did you mean 'model'?"),
        ("--config-dir=", "the config folder '' does not exist"),
    ],
    ids=lambda text: text[:20],
)
def test_values_that_nothing_can_be_done_with(elsewhere: Path, capsys, word: str, said: str):
    assert main(["train", "env=toy", "model=toy", "algorithm=ppo", word]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("error: ") == 1 and len(error) < 1000
    assert list(elsewhere.iterdir()) == []
