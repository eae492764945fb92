"""A policy in another interpreter: its process, and what is refused. Needs no LeRobot."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import psutil
import pytest
from internals import check, compose, load, to_yaml
from rlcore_model_lerobot.factory import make
from rlcore_model_lerobot.messages import Act, Load
from rlcore_model_lerobot.process import PolicyProcess
from rlcore_model_lerobot.settings import LeRobotConfig, LeRobotModelConfig
from rlcore_simulation import known_interpreters, venvs
from rlcore_simulation.cli.venv import main as venv
from rlcore_simulation.interpreters import query_interpreter
from rlcore_testing.conformance.fake_env import fake_env

from rlcore.contracts.errors import (
    CheckpointError,
    ConfigError,
    MissingPackageError,
    PluginError,
    WorkerError,
)
from rlcore.contracts.rng import RowKeys

ENV = fake_env()
KEYS = RowKeys(tuple((7, row) for row in range(3)))
INPUTS = {"state": np.arange(12, dtype=np.float32).reshape(3, 4)}
TESTS = str(Path(__file__).parent)
KEY = "actor.model.lerobot.python"
absent = pytest.mark.skipif(find_spec("lerobot") is not None, reason="LeRobot is installed here")


def started(at: str = "", what: str = "", seconds: float = 60.0) -> PolicyProcess:
    told = {"at": at, "what": what} if at else None
    config = LeRobotModelConfig(lerobot=LeRobotConfig(config=told))
    return PolicyProcess(
        sys.executable, Load(config, ENV, 0), variables={}, seconds=seconds, module="fake_policy"
    )


@pytest.fixture
def process() -> Iterator[PolicyProcess]:
    process = started()
    yield process
    process.close()


def test_a_process_draws_the_noise_of_the_keys(process: PolicyProcess) -> None:
    """So that its actions are those of a policy in this process."""
    acted = process.act(Act(INPUTS, KEYS, "cpu")).actions
    expected = KEYS.normal("draw 0", (4, 4)) + INPUTS["state"][:, None]
    np.testing.assert_array_equal(acted, expected)
    assert acted.dtype == np.float32


FAILURES = [
    ("die", WorkerError, ("exit code 3", "line one\nout of memory", "rlcore venv create")),
    ("raise", WorkerError, ("ValueError: no such layer", "fake_policy.py")),
    ("refuse", CheckpointError, ("the folder is damaged", "copy it again")),
]


@pytest.mark.parametrize(("what", "error", "words"), FAILURES, ids=[row[0] for row in FAILURES])
def test_a_failure_is_one_error_that_names_the_interpreter(refused, what, error, words) -> None:
    with refused(error, sys.executable, *words, text=False):
        started("load", what)
    process = started("act", what)
    with refused(error, sys.executable, *words, text=False):
        process.act(Act(INPUTS, KEYS, "cpu"))
    process.close()


def test_a_process_that_hangs_is_killed(refused) -> None:
    with refused(WorkerError, sys.executable, "did not answer within 8 s", text=False):
        started("load", "hang", seconds=8.0)
    assert not [child for child in psutil.Process().children() if "fake_policy" in str(child)]


def test_a_killed_process_is_named(refused, process: PolicyProcess) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    with refused(WorkerError, "killed by signal 9", "it printed last:\nnothing", text=False):
        process.act(Act(INPUTS, KEYS, "cpu"))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_it_ends_with_the_process_that_started_it(number: signal.Signals) -> None:
    script = (
        f"import sys, time; sys.path.insert(0, {TESTS!r})\n"
        "from test_elsewhere import started\n"
        "print(started().pid, flush=True); time.sleep(600)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.send_signal(number)
    end = time.monotonic() + 60
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < end
        time.sleep(0.05)


@absent
def test_an_interpreter_without_lerobot_is_told_how_to_get_it(refused) -> None:
    config = LeRobotModelConfig(lerobot=LeRobotConfig(python=sys.executable))
    words = (sys.executable, "lerobot", "rlcore venv create lerobot", "older version")
    with refused(MissingPackageError, *words, text=False):
        make(config, env_spec=ENV)


# -- before a run -------------------------------------------------------------------------------

RUN = ["env=toy", "model=lerobot_tiny", f"{KEY}={sys.executable}"]


@pytest.mark.parametrize(
    "words",
    [["algorithm=rft", "sft.enabled=true"], ["algorithm=expo", "sft.enabled=true"]],
    ids=["rft", "expo"],
)
def test_training_is_refused_in_one_sentence(refused, words: list[str]) -> None:
    with refused(ConfigError, "runner.only_eval", KEY, "install LeRobot", text=False) as error:
        check(compose([*RUN, *words]))
    assert "sft.enabled" not in str(error.value) and "imitates" not in str(error.value)


def test_supervised_training_is_refused_in_one_sentence(refused) -> None:
    config = compose([*RUN, "sft.enabled=true"], require=("env", "model"))
    with refused(ConfigError, "sft.enabled must be false", KEY, "install LeRobot", text=False):
        check(config)


def test_an_evaluation_is_not_refused() -> None:
    check(compose([*RUN, "runner.only_eval=true"]))


def test_a_saved_run_may_name_only_interpreters_that_the_user_knows(
    refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    saved = tmp_path / "config.yaml"
    saved.write_text(to_yaml(compose([*RUN, "runner.only_eval=true"])))
    with refused(ConfigError, KEY, sys.executable, "--trust", text=False):
        load(saved)
    known_interpreters.note(sys.executable)
    assert load(saved).actor.model.interpreter() == sys.executable


# -- its environment ----------------------------------------------------------------------------


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A complete environment of LeRobot, as far as its interpreter says."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    folder = venvs.usual("lerobot")
    (folder / "bin").mkdir(parents=True)
    (folder / venvs.CONFIG).touch()
    packages = {"lerobot": "0.4.4", "numpy": "2.2.6"}
    answer = json.dumps({"version": "3.11.7", "packages": packages})
    python = folder / "bin/python"
    python.write_text(f"#!/bin/sh\necho 'rlcore-look {answer}'\n")
    python.chmod(0o755)
    stamp = {"model": "lerobot", "ours": True, "requirements": ["lerobot>=0.4.3"]}
    (folder / venvs.STAMP).write_text(json.dumps(stamp))
    query_interpreter.cache_clear()
    return folder


@absent
@pytest.mark.parametrize("name", ["lerobot", "lerobot_tiny", "model=lerobot"])
def test_the_environment_is_found_listed_and_used(
    made: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    config = compose(["env=toy", "model=lerobot", "runner.only_eval=true"])
    assert config.actor.model.interpreter() == str(made)
    assert venv(["create", name]) == 0
    printed = capsys.readouterr().out.splitlines()
    option = name.removeprefix("model=")
    assert printed[-1].endswith(f"ENV actor.model.model_path=FOLDER model={option}")
    assert f"{made} is complete" in printed and "lerobot 0.4.4" in printed[-2]
    assert venv(["ls"]) == 0
    assert f"{made} for lerobot: Python 3.11.7" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore:lerobot runs in")
def test_an_older_environment_is_named_in_the_command(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    shutil.copytree(made, other)
    os.utime(other / venvs.STAMP, (10**9, 10**9))
    assert venv(["create", "lerobot", str(other)]) == 0
    assert capsys.readouterr().out.endswith(f" model=lerobot {KEY}={other}\n")


def test_a_name_of_no_component_or_of_two_is_refused(refused) -> None:
    with refused(ConfigError, "env=toy", "model=toy"):
        venv(["create", "toy"])
    with refused(PluginError, "env or model 'lerobt'", "lerobot", text=False):
        venv(["create", "lerobt"])
