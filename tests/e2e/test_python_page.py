"""docs/python.md and docs/python.ipynb: their cells, run in order as a notebook would."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "python.md"
CELLS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def test_the_notebook_is_the_page():
    """To write it anew: `python docs/make_notebook.py`."""
    text = (DOCS / "python.ipynb").read_text(encoding="utf-8")
    assert text == runpy.run_path(str(DOCS / "make_notebook.py"))["notebook"]()
    book = json.loads(text)
    assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in book["cells"]}) == len(book["cells"]) > len(CELLS)
    code = ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "code"]
    assert code == [cell.rstrip("\n") for cell in CELLS]
    shown = "".join(line for cell in book["cells"] for line in cell["source"])
    assert "pip install" in shown and "python.ipynb" not in shown


@pytest.mark.long
def test_the_cells_of_the_page_run_in_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for cell in CELLS:
        exec(compile(cell, str(PAGE), "exec"), names)
    assert names["result"].folder.is_dir()
    curve = names["curve"]
    assert len(curve) == 25 and curve[0] < 0.2 and max(curve) > 0.8  # as the page says
    output = capsys.readouterr().out
    assert [f"update {n}: KL " in output for n in (25, 26, 27)] == [False, True, True]
    assert len(names["evaluation"].episodes) == 8  # four tasks, two trials
    assert names["actions"].dtype == "float32" and names["actions"].ndim == 3
    assert names["played"].result == names["after"][0]  # played again, the same
    assert [one.config().runner.seed for one in names["runs"]] == [1, 2]
