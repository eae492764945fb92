"""The command lines of docs/serving.md work."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rlcore_serve.command import api_key
from rlcore_serve.settings import KEY_VARIABLE, read_settings

from rlcore.cli.main import main
from rlcore.contracts.errors import ConfigError

ROOT = Path(__file__).parents[3]
QUICK = (
    "cluster.backend=local",
    "cluster.torch_threads=1",
    "env.eval.total_num_envs=2",
    "env.eval.trials_per_task=1",
    "runner.logger.logger_backends=[]",
)


def command_lines() -> list[list[str]]:
    """The command lines of the page, as words."""
    text = (ROOT / "docs/serving.md").read_text()
    return [shlex.split(line) for line in re.findall(r"^    (\S.+)$", text, re.MULTILINE)]


@pytest.mark.long
def test_the_lines_of_the_page(run, tmp_path, monkeypatch, capfd, refused):
    serve, keys, elsewhere, loop, remote, benchmark = command_lines()
    command = [sys.executable, "-m", "rlcore.cli.main", "serve", str(run)]
    assert (serve, loop[:2]) == (["rlcore", "serve", "RUN"], ["python", "examples/robot_loop.py"])
    with subprocess.Popen([*command, "serve.port=0"], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = re.search(r"ws://127\.0\.0\.1:\d+", server.stdout.readline())[0]
        driven = subprocess.run(
            [sys.executable, ROOT / loop[1], url, "1"], capture_output=True, text=True, check=True
        )
        parts = {line[:22].strip(): int(line[22:28]) for line in driven.stdout.splitlines()}
        assert parts["server infer_ms"] == parts["answer"] >= 3 and parts["idle"] <= 3
        monkeypatch.chdir(tmp_path)
        overrides = [word.replace("ws://127.0.0.1:8000", url) for word in remote]
        assert main([*overrides[1:], *QUICK, "runner.logger.experiment_name=remote"]) == 0
        (manifest,) = tmp_path.rglob("remote/manifest.json")
        assert json.loads(manifest.read_text())["policy_server"]["says"]["policy"] == "toy"
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0
    assert main([*benchmark[1:], "--dry-run"]) == 0
    assert "remote: 0 parameters" in capfd.readouterr().out
    # the others differ in their keys alone
    settings = read_settings([word for word in keys if word.startswith("serve.")])
    assert (settings.port, settings.forward_batch) == (8001, 8)
    variable, *_, host = elsewhere
    name, _, key = variable.partition("=")
    host = read_settings([host]).host
    assert name == KEY_VARIABLE and name not in os.environ
    with refused(ConfigError, name):
        api_key(host)
    monkeypatch.setenv(name, key)
    assert api_key(host) == key
