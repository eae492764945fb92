"""The tests of this folder, in an environment that has LeRobot."""

from __future__ import annotations

import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest
from lerobot_env import policies_python


@pytest.mark.long
@pytest.mark.skipif(find_spec("lerobot") is not None, reason="they run here")
def test_the_others_pass_where_lerobot_is(tmp_path: Path) -> None:
    python = policies_python(tmp_path / "venv")
    given = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    command = [python, "-m", "pytest", "-n", "0", "-q", "-p", "no:cacheprovider", "-m", ""]
    done = subprocess.run(
        [*command, Path(__file__).parent],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", **given},
    )
    assert done.returncode == 0 and "passed" in done.stdout, done.stdout + done.stderr
