"""Fixtures of the tests of benchmarks."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def figures_of(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """`figures_of(NAME, *words)` runs `benchmarks/NAME.py` to its end, and gives what it found."""

    def run(name: str, *words: str) -> dict[str, Any]:
        out = tmp_path / f"{name}.json"
        done = subprocess.run(
            [sys.executable, BENCHMARKS / f"{name}.py", *words, "--json", out],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,  # a simulator must not ask for anything
        )
        assert done.returncode == 0, done.stderr
        figures: dict[str, Any] = json.loads(out.read_text())
        return figures

    return run
