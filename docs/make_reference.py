"""Write the tables of docs/plugin-reference.md from docstrings: `python docs/make_reference.py`."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/plugin-reference.md"
HOOKS = ROOT / "rlcore/contracts/hookspecs.py"


def docstrings() -> dict[str, str]:
    """Return the docstring of each hook, in the order of a run."""
    return {
        node.name: ast.get_docstring(node) or ""
        for node in ast.parse(HOOKS.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("rlcore_")
    }


def hooks() -> str:
    """Return the table of hooks: the first sentence of each docstring."""
    rows = ["| hook | what it does |", "|---|---|"]
    for name, docstring in docstrings().items():
        sentence = re.split(r"(?<=[.])\s", " ".join(docstring.split()))[0]
        rows.append(f"| `{name}` | {re.sub(r':[a-z]+:(?=`)', '', sentence)} |")
    return "\n".join(rows)


def kinds() -> str:
    """Return the table of kinds of components: the list in the docstring of the first hook."""
    rows = ["| kind | used as |", "|---|---|"]
    listed = re.sub(r"\n {2,}", " ", docstrings()["rlcore_components"])
    for kind, use in re.findall(r"^\* (\w+): (.+)$", listed, re.MULTILINE):
        rows.append(f"| `{kind}` | {use} |")
    return "\n".join(rows)


def written(page: str) -> str:
    """Return the page with both tables."""
    for name, table in (("hooks", hooks()), ("kinds", kinds())):
        begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
        before, _, rest = page.partition(begin)
        page = f"{before}{begin}\n\n{table}\n\n{end}{rest.partition(end)[2]}"
    return page


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
