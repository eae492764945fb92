"""What an env's libraries print and log goes to the run's folder, and rlcore's words do not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PLUGIN = """
from rlcore import hookimpl
from rlcore.contracts.component import ComponentSpec

RLCORE_API = (0, 1)


@hookimpl
def rlcore_components():
    settings = "rlcore_testing.toy_settings"
    facts = {"config": f"{settings}:ToyEnvConfig", "spec": f"{settings}:env_spec"}
    return [ComponentSpec("env", "noisy", "acme_noisy.env:make", **facts)]
"""
ENV = """
import logging, os, sys
from rlcore.contracts.errors import warn
from rlcore_testing.toy_env import ToyEnv

log = logging.getLogger("acme")
log.propagate = False
log.addHandler(logging.StreamHandler())  # as ManiSkill has one


class NoisyEnv(ToyEnv):
    def chunk_step(self, actions):
        log.warning("LOGGED")
        print("PRINTED")
        sys.stderr.write("WRITTEN\\n")
        return super().chunk_step(actions)

    def close(self):
        log.warning("CLOSED")
        raise RuntimeError("the window is gone")


def make(config, *, num_envs, rank, world_size, num_processes):
    return NoisyEnv(config, num_envs)
"""
WORDS = (
    *("sft", "env=noisy", "model=toy", "collect.episodes_per_task=1", "sft.max_steps=2"),
    *("env.*.total_num_envs=2", "env.eval.trials_per_task=1", "sft.val_fraction=0"),
    *("cluster.component_placement={'env,rollout,actor': 0}", "runner.logger.experiment_name=run"),
)


@pytest.fixture
def typed(tmp_path: Path):
    """`typed(words)`: run the command where the noisy env is installed, and return what it did."""
    package = tmp_path / "lib" / "acme_noisy"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "plugin.py").write_text(PLUGIN)
    (package / "env.py").write_text(ENV)
    facts = tmp_path / "lib" / "acme_noisy-1.0.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-noisy\nVersion: 1.0.0\n")
    (facts / "entry_points.txt").write_text("[rlcore.plugins]\nnoisy = acme_noisy.plugin\n")
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "lib")}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "rlcore.cli.main", *words]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done

    return run


@pytest.mark.parametrize("backend", ["local", "ray"])
def test_libraries_speak_in_files_and_rlcore_in_the_terminal(tmp_path: Path, typed, backend: str):
    """In the driver's process `print` stays where pdb is; a process of its own writes all."""
    done = typed(*WORDS, f"cluster.backend={backend}")
    logs = {path.name: path.read_text() for path in (tmp_path / "logs/run/workers").iterdir()}
    (text,) = logs.values()  # nobody else wrote anything
    assert list(logs) == ["local.log" if backend == "local" else "env_0.log"]
    spoken = done.stdout + done.stderr
    for word in ("LOGGED", "WRITTEN", "CLOSED"):
        assert word in text and word not in spoken
    assert ("PRINTED" in text) == (backend == "ray")
    assert ("PRINTED" in spoken) == (backend == "local")
    assert "run folder:" in done.stdout
    if backend == "local":  # rlcore's own warning
        assert "warning: env toy failed while it was being closed" in done.stderr
        assert "the window is gone" not in text


def test_workers_that_say_nothing_leave_no_file(tmp_path: Path, typed):
    typed(*WORDS, "env=toy", "cluster.backend=ray")
    assert not (tmp_path / "logs/run/workers").exists()
