"""The page that `make bench` writes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.long
def test_the_table_of_a_page_is_replaced_and_its_text_kept(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- measured: begin -->\nold\n<!-- measured: end -->\nafter\n")
    command = [sys.executable, str(ROOT / "benchmarks/bench.py"), "--quick", "--only", "update"]
    subprocess.run([*command, "--page", str(page)], check=True, stdin=subprocess.DEVNULL)
    text = page.read_text()
    assert text.startswith("before\n<!-- measured: begin -->")
    assert text.endswith("<!-- measured: end -->\nafter\n")
    assert "old" not in text
    assert "a bare PyTorch loop" in text
