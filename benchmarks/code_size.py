"""Count the code of a tree by folder: lines that are neither blank, comment nor docstring.

    python benchmarks/code_size.py [CHECKOUT]

Tests are left out. Prints lines and files of each folder of `rlcore/`, of core and of the plugins.
"""

from __future__ import annotations

import argparse
import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

SILENT = (
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENDMARKER,
)  # fmt: skip


def code_lines(source: str) -> int:
    """The number of lines on which some code stands."""
    documented: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        alone = node.value if isinstance(node, ast.Expr) else None
        if isinstance(alone, ast.Constant) and isinstance(alone.value, str):
            documented |= {*range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in SILENT:
            lines |= {*range(token.start[0], token.end[0] + 1)}
    return len(lines - documented)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", nargs="?", type=Path, default=Path(__file__).parents[1])
    root = parser.parse_args().checkout
    lines: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for top in ("rlcore", "plugins"):
        for file in (root / top).rglob("*.py"):
            parts = file.relative_to(root).parts
            if "tests" in parts:
                continue
            size = code_lines(file.read_text(encoding="utf-8"))
            room = parts[1] if top == "rlcore" and len(parts) > 2 else "(root)"
            for name in {top, f"rlcore/{room}" if top == "rlcore" else top}:
                lines[name] += size
                files[name] += 1
    for name in sorted(lines):
        print(f"{lines[name]:7,d} lines {files[name]:4d} files  {name}")


if __name__ == "__main__":
    main()
