"""The tests of this folder, in an environment that has LeRobot, and its policies from here."""

from __future__ import annotations

import json
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest
from lerobot_env import VERSION, policies_python

from rlcore import compose, evaluate, open_run

ENVIRONMENT = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"}
SAVE = """
import sys
from pathlib import Path
from rlcore.api import build_policy, compose, save_policy
policy, env = build_policy(compose("env=toy", "model=lerobot_tiny", "runner.only_eval=true"))
save_policy(policy, env, Path(sys.argv[1]))
"""
EVALUATE = "import sys, rlcore; rlcore.evaluate(rlcore.compose(*sys.argv[1:]))"
EVAL = [
    "env=toy",
    "model=lerobot",
    "actor.model.num_action_chunks=2",
    "env.eval.total_num_envs=4",
    "env.eval.trials_per_task=1",
    "runner.only_eval=true",
    "runner.logger.logger_backends=[]",
    "cluster.backend=local",
]

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(find_spec("lerobot") is not None, reason="they run here"),
]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return policies_python(tmp_path_factory.mktemp("lerobot") / "venv")


def run(*command: object, cache: Path) -> None:
    """Run a command that finds neither a network nor this process's packages."""
    done = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        env={**ENVIRONMENT, "HF_HOME": str(cache)},
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_others_pass_where_lerobot_is(python: Path, tmp_path: Path) -> None:
    options = ("-n", "0", "-q", "-p", "no:cacheprovider", "-m", "")
    run(python, "-m", "pytest", *options, Path(__file__).parent, cache=tmp_path)


def test_a_policy_is_evaluated_from_where_lerobot_is_not(python: Path, tmp_path: Path) -> None:
    """With the episodes of an evaluation where it is."""
    folder = tmp_path / "policy"
    run(python, "-c", SAVE, folder, cache=tmp_path)
    words = [*EVAL, f"actor.model.model_path={folder}", f"runner.logger.log_path={tmp_path}"]
    name = "runner.logger.experiment_name"
    run(python, "-c", EVALUATE, *words, f"{name}=there", cache=tmp_path)
    key = "actor.model.lerobot.python"
    here = evaluate(compose(*words, f"{key}={python}", f"{name}=here"))
    (there,) = open_run(tmp_path / "there").evaluations().values()
    assert here.episodes == there.episodes and here.episodes
    versions = json.loads((tmp_path / "here/manifest.json").read_text())["versions"]
    assert versions[f"lerobot ({key})"] == VERSION
