"""Several things that are missing, on the real command line: one error names all of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TINY = [
    "env=metaworld", "model=pi0_tiny", "algorithm=ppo", "cluster.backend=local",
    "cluster.component_placement={env: 0, rollout: 0, actor: 0}",
]  # fmt: skip
WRONG = [
    "env.train.sentences=nowhere.json", "actor.model.model_path=nowhere",
    "runner.logger.logger_backends=[nobody]", "env.train.python=/no/python",
]  # fmt: skip


def typed(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rlcore.cli.main", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)


@pytest.mark.long
def test_all_missing_things_are_named_at_once(tmp_path: Path) -> None:
    done = typed(tmp_path, "train", *TINY, *WRONG)
    text = [line for line in done.stderr.splitlines() if not line.startswith("warning: ")]
    assert done.returncode == 2 and done.stdout == ""
    assert text[0].endswith(" things keep this run from starting:")
    wanted = [  # what is missing, and how to mend it
        ("env.train.sentences", "nowhere.json", "env.train.sent"),
        ("actor.model.model_path", f"{tmp_path}/nowhere", "rlcore "),
        ("runner.logger.logger_backends", "'nobody'", "rlcore plugins"),
        ("env.train.python", "/no/python", "rlcore venv create metaworld"),
    ]
    for (key, value, fix), line, mended in zip(wanted, text[1::2], text[2::2], strict=False):
        assert line.startswith(key) and value in line
        assert mended.startswith(f"  fix: {fix}")
    assert not list(tmp_path.iterdir())
    doctor = typed(tmp_path, "doctor", *TINY, *WRONG)
    assert doctor.returncode == 1
    for (key, *_), status in zip(wanted, ["refused "] * 3 + ["missing "], strict=True):
        assert f"\n{status} {key}" in f"\n{doctor.stdout}"
