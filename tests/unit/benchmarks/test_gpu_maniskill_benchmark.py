"""The benchmark runs from end to end where there is no GPU, and its figures belong together."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

pytest.importorskip("rlcore_env_maniskill")
pytest.importorskip("rlcore_model_openvla_oft")


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / "benchmarks/gpu_maniskill.py", *arguments],
        capture_output=True,
        text=True,
    )


@pytest.mark.long
def test_measures_all_phases_and_the_bound(tmp_path):
    out = tmp_path / "gpu.json"
    run = _run(
        "--device", "cpu", "--size", "tiny", "--sim-backend", "cpu", "--num-envs", "1",
        "--chunks", "2", "--repeats", "1", "--json", str(out),
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    figures = json.loads(out.read_text())
    assert json.loads(run.stdout.splitlines()[-1]) == figures
    # one episode of two chunks of 8; a third frame is decided on for the value after the time limit
    assert figures["work"] == {"env_steps": 16, "episodes": 1, "decisions": 3}
    assert figures["samples"] == 2
    phases = figures["phases"]
    assert {name: phases[name]["calls"] for name in ("simulate", "render", "prepare", "act")} == {
        "simulate": 16, "render": 3, "prepare": 3, "act": 3,
    }  # fmt: skip
    # both chunks are one micro-batch
    assert [phases[name]["calls"] for name in ("evaluate", "backward", "optimizer")] == [1, 1, 1]
    assert phases["evaluate"]["rows"] == 2
    assert all(phase["seconds"] > 0 for phase in phases.values())
    simulation, policy = figures["alone"]["simulation"], figures["alone"]["policy"]
    needed = simulation["reset"] + 16 * simulation["step"] + 3 * simulation["frame"]
    needed += 3 * policy["1"]
    speeds = figures["env_steps_per_second"]
    assert speeds["bound"] == pytest.approx(16 / needed)
    assert speeds["rollout"] == pytest.approx(16 / figures["seconds"]["rollouts"][0])
    assert speeds["rollout/bound"] == pytest.approx(speeds["rollout"] / speeds["bound"])
    assert figures["peak_gib"]["update"]["host"] >= figures["peak_gib"]["rollout"]["host"] > 0


@pytest.mark.long
def test_without_a_gpu_it_says_so(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    run = _run()
    assert run.returncode != 0
    assert run.stdout == ""
    (error, hint) = run.stderr.strip().splitlines()
    assert error.startswith("error: device=gpu and sim-backend=gpu need an NVIDIA GPU")
    assert "--device cpu --size tiny --sim-backend cpu" in hint
