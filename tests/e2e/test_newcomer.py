"""What a newcomer types, in an environment that has nothing but what pip put there: our wheels.

From `rlcore new` to a training run of the new part, without an edit; the seconds of each command
are printed. The environment is made by the test, so it needs an index of packages.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest
from test_wheels import wheelhouse as wheelhouse

pytestmark = pytest.mark.long
EXTRAS = "rlcore[ppo,testing,tools,gymnasium]"
KINDS = {
    "env": ("env", "my-reach"),
    "model": ("model", "my-model"),
    "algorithm": ("algorithm", "my-algorithm"),
    "gymnasium": ("env", "my-pole", "--from", "gymnasium:CartPole-v1"),
}
Typed = Callable[..., str]


@pytest.fixture(scope="module")
def fresh(tmp_path_factory, wheelhouse) -> Path:
    """The folder of commands of an environment of its own."""
    folder = tmp_path_factory.mktemp("fresh") / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    # torch first: the very build that the tests run on
    for words in (
        [f"torch=={version('torch').partition('+')[0]}"],
        ["--find-links", str(wheelhouse), EXTRAS],
    ):
        pip = [folder / "bin/pip", "install", "--quiet", "--no-compile", *words]
        done = subprocess.run(pip, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"{words[-1]} can't be installed here: {done.stderr.strip()[-200:]}")
    return folder / "bin"


@pytest.fixture
def typed(fresh, wheelhouse, tmp_path) -> Typed:
    """Types a command, which must succeed; gives its output, and prints its seconds."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    # what pip finds by itself once rlcore is on an index
    environ |= {"PIP_FIND_LINKS": f"{os.environ.get('PIP_FIND_LINKS', '')} {wheelhouse}"}

    def run(*words: str) -> str:
        began = time.monotonic()
        command = [str(fresh / words[0]), *words[1:]]
        done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True)
        print(f"{time.monotonic() - began:6.1f} s: {' '.join(words)}")
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.mark.parametrize("kind", KINDS)
def test_from_the_template_to_a_training_run(kind, typed, tmp_path):
    what, name, *source = KINDS[kind]
    package = name.replace("-", "_")
    output = typed("rlcore", "new", what, name, *source)
    checked = output.rpartition("rlcore check ")[2].split()  # as it says itself
    typed("pip", "install", "-e", f"./{name}")
    assert ": 0 findings" in typed("rlcore", "check", *checked)
    if what == "env":
        typed("rlcore", "view", f"env={package}", "--trials", "2")
        assert (tmp_path / "view.html").stat().st_size > 10_000
    typed("rlcore", "train", package)
    assert (tmp_path / f"logs/{package}/summary.json").is_file()
    typed("rlcore", "view", f"logs/{package}", "--trials", "1")
    assert (tmp_path / f"logs/{package}/view.html").stat().st_size > 10_000
