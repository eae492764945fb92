"""Lines of code are counted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[3] / "benchmarks/code_size.py"
SOURCE = '''"""A module."""

import os  # 1

# a comment

def f(x):  # 2
    """Two lines
    of a docstring."""
    return [  # 3 to 5
        x,
    ]


TEXT = """a string
that is no docstring"""  # 6 and 7
'''


def test_blank_lines_comments_docstrings_and_tests_do_not_count(tmp_path):
    for name in ("rlcore/room/one.py", "rlcore/two.py", "plugins/p/q.py", "plugins/p/tests/t.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(SOURCE)
    done = subprocess.run([sys.executable, SCRIPT, tmp_path], capture_output=True, text=True)
    rows = {
        line.split()[-1]: [line.split()[0], line.split()[2]] for line in done.stdout.splitlines()
    }
    assert rows == {
        "plugins": ["7", "1"],
        "rlcore": ["14", "2"],
        "rlcore/(root)": ["7", "1"],
        "rlcore/room": ["7", "1"],
    }
