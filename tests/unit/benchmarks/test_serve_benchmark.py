"""The figures of benchmarks/serve.py."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.long
def test_a_server_and_two_clients(tmp_path: Path) -> None:
    words = ["--model", "pi0_tiny", "--requests", "1", "--clients", "2", "--threads", "1"]
    command = [sys.executable, ROOT / "benchmarks/serve.py", *words, "--json", "found.json"]
    subprocess.run(command, check=True, cwd=tmp_path, timeout=300)
    found = json.loads((tmp_path / "found.json").read_text())
    assert 0 < found["milliseconds"]["direct"] < found["milliseconds"]["served"]
    alone, each, shared = found["requests"].values()
    assert alone["batch"] == each["batch"] == 1.0 <= shared["batch"] <= 2.0
