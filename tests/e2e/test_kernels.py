"""What a run computes with is kept, taken up when it goes on, and compared with what it was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from internals import MKL, OURS, current_environment
from resume_cases import COMMON, go_on, play

from rlcore.utils.mkl import local_processor

needs_mkl = pytest.mark.skipif(not local_processor().setting, reason="no MKL for this processor")


def kernels(run: Path) -> dict[str, Any]:
    kept: dict[str, Any] = json.loads((run / "manifest.json").read_text())["kernels"]
    return kept


def rlcore(*words: str, mkl: str | None = None) -> str:
    """Return what a command prints in an interpreter of its own, as MKL reads its setting once."""
    plain = {name: value for name, value in os.environ.items() if name not in (MKL, OURS)}
    done = subprocess.run(
        [sys.executable, "-m", "rlcore.cli.main", *words],
        env=plain | ({} if mkl is None else {MKL: mkl}), capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def start(log_path: Path) -> Path:
    return play(log_path, "run", *COMMON, "runner.max_epochs=1")


def test_a_run_keeps_what_it_computed_with(log_path: Path, capsys: pytest.CaptureFixture[str]):
    run = start(log_path)
    kept = kernels(run)
    assert kept["environment"] == current_environment()
    assert kept["processor"]["level"] == local_processor().level
    assert kept["rounding"]["rows"] == 4 and kept["rounding"]["decisions"] == []
    (digest,) = kept["rounding"]["digests"]
    go_on(run, "runner.max_epochs=2")
    assert kernels(run)["rounding"]["digests"] == [digest]
    assert "rounds sums differently" not in capsys.readouterr().out


@pytest.mark.long
def test_a_run_that_goes_on_elsewhere_says_so(log_path: Path, capsys: pytest.CaptureFixture[str]):
    """And learns on."""
    run = start(log_path)
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["kernels"]["rounding"]["digests"] = ["b2"]
    manifest["kernels"]["processor"]["maker"] = "Elsewhere Inc."
    (run / "manifest.json").write_text(json.dumps(manifest))
    go_on(run, "runner.max_epochs=2")
    output = " ".join(capsys.readouterr().out.split())
    assert "rounds sums differently from the one before (Elsewhere Inc." in output
    assert kernels(run)["processor"]["maker"] == local_processor().maker


@needs_mkl
@pytest.mark.long
@pytest.mark.parametrize("backend", ["local", "ray"])
def test_resume_takes_up_the_kernels_that_the_run_began_with(tmp_path: Path, backend: str):
    """Chosen by hand at first; workers of processes of their own have them too."""
    place = (f"runner.logger.log_path={tmp_path}", "runner.logger.experiment_name=run")
    common = [*COMMON, f"cluster.backend={backend}", *place]
    text = rlcore("train", *common, "runner.max_epochs=1", mkl="COMPATIBLE")
    assert "MKL_CBWR=COMPATIBLE was set by hand and is kept" in " ".join(text.split())
    run = tmp_path / "run"
    begun = kernels(run)
    assert begun["by_hand"] and begun["environment"][MKL] == "COMPATIBLE"
    text = rlcore("resume", str(run), "runner.max_epochs=2")
    again = kernels(run)
    assert again["environment"] == begun["environment"] and not again["by_hand"]
    assert again["rounding"] == begun["rounding"]  # the digests: they computed alike
    assert "rounds sums differently" not in text


@needs_mkl
@pytest.mark.long
def test_replays_and_verified_evaluations_compute_as_the_run_did(tmp_path: Path):
    place = (f"runner.logger.log_path={tmp_path}", "runner.logger.experiment_name=run")
    rlcore("train", *COMMON, *place, "runner.max_epochs=1", mkl="COMPATIBLE")
    text = rlcore("eval", str(tmp_path / "run"), "--verify")
    assert "verified" in text and "rounds sums differently" not in text
    (evaluated,) = tmp_path.glob("run-eval*")
    assert kernels(evaluated)["environment"][MKL] == "COMPATIBLE"
    text = rlcore("replay", str(tmp_path / "run"), "--task", "0", "--trial", "1000")
    assert "as evaluated" in text and "NOT" not in text
