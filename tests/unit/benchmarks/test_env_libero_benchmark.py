"""The benchmark runs from end to end, on stand-ins."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

pytest.importorskip("rlcore_env_libero")


@pytest.mark.long
@pytest.mark.skipif(
    util.find_spec("libero") is None, reason="LIBERO is not installed (rlcore install-libero)"
)
def test_both_are_measured_in_one_run(tmp_path):
    out = tmp_path / "env_libero.json"
    run = subprocess.run(
        [sys.executable, ROOT / "benchmarks/env_libero.py", "--quick", "--json", out],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,  # LIBERO must not ask for anything
    )
    assert run.returncode == 0, run.stderr
    figures = json.loads(out.read_text())
    ours, peer = figures["ours"], figures["peer"]
    assert figures["ratio"] == pytest.approx(ours["per_second"] / peer["per_second"])
    assert figures["cpu_ratio"] == pytest.approx(ours["per_cpu_second"] / peer["per_cpu_second"])
    # ours compiles nothing at a reset, and draws no frame while it waits
    assert 0 < figures["parts"]["ours"]["start"] < figures["parts"]["LIBERO's"]["start"] / 2
    assert figures["cpu_ratio"] > 1
