"""Envs and policies with unexpected behaviour: each costs one error, or nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from internals import has_checkpoint
from resume_cases import REINFORCE, play
from rlcore_testing.toy_env import ToyEnv
from rlcore_testing.toy_policy import ToyPolicy

from rlcore.cli.main import main
from rlcore.contracts.errors import PolicyError, WorkerError

LONGEST = 400.0
SFT = ["sft.enabled=true", "sft.max_steps=3", "collect.episodes_per_task=2"]
QUICK = [
    "runner.max_epochs=1",
    "runner.val_before_train=false",
    "runner.logger.experiment_name=run",
]


def words(log_path: Path, *overrides: str) -> list[str]:
    return [*REINFORCE, *QUICK, f"runner.logger.log_path={log_path}", *overrides]


class NoException(BaseException):
    """Not an Exception: `except Exception` does not catch it."""


def test_an_error_that_is_no_exception_names_the_worker(log_path: Path, refused, monkeypatch):
    def fail(env: ToyEnv, actions: object) -> None:
        raise NoException("of a library")

    monkeypatch.setattr(ToyEnv, "chunk_step", fail)
    with refused(WorkerError, "env worker", "NoException: of a library", text=False):
        play(log_path, "run", *REINFORCE, *QUICK)


@pytest.mark.long
def test_an_env_that_empties_the_environment(log_path: Path, monkeypatch):
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


def test_a_policy_that_saves_nothing_makes_no_checkpoint(log_path: Path, refused, monkeypatch):
    monkeypatch.setattr(ToyPolicy, "save_pretrained", lambda policy, path: None)
    with refused(PolicyError, "save_pretrained", text=False):
        play(log_path, "run", *REINFORCE, *QUICK)
    assert not has_checkpoint(log_path / "run" / "checkpoints")
    assert not list((log_path / "run").rglob("step_*"))


def test_demonstrations_that_teach_nothing_are_announced(log_path: Path, monkeypatch, capsys):
    loss = ToyPolicy.sft_loss
    monkeypatch.setattr(ToyPolicy, "sft_loss", lambda policy, *given: 0 * loss(policy, *given))
    play(log_path, "run", *REINFORCE, *QUICK, *SFT)
    assert "warning: sft learned nothing" in capsys.readouterr().out


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
    assert doing in done.stderr and f"cluster.timeouts.{key}" in done.stderr
    assert time.monotonic() - begun < LONGEST
    assert (log_path / "run" / "summary.json").is_file() == (doing == "stop")
