"""Envs and policies that do what nobody expects of them: each costs one error, or nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from internals import assemble, compose, has_checkpoint, train
from resume_cases import COMMON
from rlcore_testing.toy_env import ToyEnv
from rlcore_testing.toy_policy import ToyPolicy

from rlcore.cli.main import main
from rlcore.contracts.errors import PolicyError, WorkerError

LONGEST = 400.0
QUICK = ["sft.enabled=false", "runner.max_epochs=1", "runner.val_before_train=false"]


def words(log_path: Path, *overrides: str) -> list[str]:
    return [*COMMON, *QUICK, f"runner.logger.log_path={log_path}", *overrides]


class Fate(BaseException):
    """No Exception, so that nobody catches it by accident."""


def test_what_is_no_exception_is_told_with_the_worker(
    log_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def strike(env: ToyEnv, actions: object) -> None:
        raise Fate("of a library's own")

    monkeypatch.setattr(ToyEnv, "chunk_step", strike)
    with pytest.raises(WorkerError, match=r"(?s)env worker failed .*Fate: of a library's own"):
        train(assemble(compose(words(log_path))))


@pytest.mark.long
def test_an_env_that_empties_the_environment(log_path: Path, monkeypatch: pytest.MonkeyPatch):
    step = ToyEnv.chunk_step

    def clear(env: ToyEnv, actions: object) -> object:
        os.environ.clear()
        return step(env, actions)

    kept = dict(os.environ)
    monkeypatch.setattr(ToyEnv, "chunk_step", clear)
    try:
        assert main(["train", *words(log_path)]) == 0
    finally:
        os.environ.update(kept)
    assert (log_path / "run" / "summary.json").is_file()


def test_a_policy_that_saves_nothing_makes_no_checkpoint(
    log_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(ToyPolicy, "save_pretrained", lambda policy, path: None)
    with pytest.raises(PolicyError, match="what it wrote of save_pretrained is nothing"):
        train(assemble(compose(words(log_path))))
    assert not has_checkpoint(log_path / "run" / "checkpoints")
    assert not list((log_path / "run").rglob("step_*"))


def test_demonstrations_that_teach_nothing_are_announced(
    log_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    loss = ToyPolicy.sft_loss
    monkeypatch.setattr(ToyPolicy, "sft_loss", lambda policy, *given: 0 * loss(policy, *given))
    train(assemble(compose(words(log_path, "sft.enabled=true", "sft.max_steps=3"))))
    said = " ".join(capsys.readouterr().out.split())
    assert "warning: sft learned nothing: the gradients of its 3 steps are all zero" in said


@pytest.mark.long
@pytest.mark.parametrize(
    ("method", "doing", "key"),
    [("close", "stop", "env"), ("__init__", "start", "start"), ("chunk_step", "converse", "env")],
)
def test_an_env_that_does_not_come_back_ends_the_command(
    log_path: Path, method: str, doing: str, key: str
):
    """On the local backend nobody else could end it. What was played is written by then."""
    code = (
        "import sys, time; from rlcore.cli.main import main; from rlcore_testing import toy_env\n"
        f"toy_env.ToyEnv.{method} = lambda env, *a, **b: time.sleep(600)\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", code, "train", *words(log_path, f"cluster.timeouts.{key}=1")],
        capture_output=True,
        text=True,
        timeout=LONGEST,
    )
    assert done.returncode == WorkerError.exit_code, done.stderr
    assert f"env worker was asked to {doing} and has not returned within 1 s" in done.stderr
    assert f"(cluster.timeouts.{key})" in done.stderr
    assert time.monotonic() - begun < LONGEST
    assert (log_path / "run" / "summary.json").is_file() == (doing == "stop")
