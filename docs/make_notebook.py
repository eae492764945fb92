"""Write docs/python.ipynb from docs/python.md: `python docs/make_notebook.py`.

Each block of Python becomes a cell of code, and the text between two blocks a cell of Markdown.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

DOCS = Path(__file__).parent
PAGE = DOCS / "python.md"
NOTEBOOK = DOCS / "python.ipynb"
ITSELF = "This page is also [a notebook](python.ipynb)."
BLOCK = re.compile(r"^```python\n(.*?)^```\n", re.DOTALL | re.MULTILINE)


def notebook() -> str:
    """Return the notebook of the page as JSON, in version 4.5 of its format, without outputs."""
    text = PAGE.read_text(encoding="utf-8").replace(f" {ITSELF}", "")
    cells = []
    for number, part in enumerate(BLOCK.split(text)):  # every second part is code
        if not part.strip():
            continue
        cell: dict[str, object] = {"cell_type": "markdown", "id": f"cell-{number}", "metadata": {}}
        if number % 2:
            cell |= {"cell_type": "code", "execution_count": None, "outputs": []}
        cells.append(cell | {"source": part.strip().splitlines(keepends=True)})
    language = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    book = {"cells": cells, "metadata": language, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(book, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    NOTEBOOK.write_text(notebook(), encoding="utf-8")
