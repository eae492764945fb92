"""docs/python.md: its cells, run in order as a notebook would."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs/python.md"


@pytest.mark.long
def test_the_cells_of_the_page_run_in_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    cells = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    for cell in cells:
        exec(compile(cell, str(PAGE), "exec"), names)
    assert names["result"].folder.is_dir()
    output = capsys.readouterr().out
    assert [f"update {n}: KL " in output for n in (1, 2, 3, 4)] == [True] * 4
    assert len(names["evaluation"].episodes) == 2  # two tasks, one trial
    assert names["actions"].dtype == "float32" and names["actions"].ndim == 3
    assert names["played"].result == names["after"][0]  # played again, the same
    assert [one.config().runner.seed for one in names["runs"]] == [1, 2]
