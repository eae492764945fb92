"""What a task's file says of its scene, read without LIBERO. Light.

A task is a text in BDDL, a language of nested brackets. What we need of it stands in three flat
lists: `(problem NAME)`, and `names - category` under `:fixtures` and `:objects`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from rlcore_env_libero.suites import FOLDERS


@dataclass(frozen=True)
class Problem:
    """Attributes:
    kind: of the scene, in lower case, e.g. "libero_floor_manipulation".
    fixtures, objects: categories by the name of each, in the order of the file.
    """

    kind: str
    fixtures: dict[str, str]
    objects: dict[str, str]


def task_file(libero: Path, task: str) -> Path:
    """The file of a task in LIBERO's folder."""
    return libero / "bddl_files" / FOLDERS[task] / f"{task}.bddl"


def init_file(libero: Path, task: str) -> Path:
    """The file of a task's init states in LIBERO's folder."""
    return libero / "init_files" / FOLDERS[task] / f"{task}.pruned_init"


def read_problem(file: Path) -> Problem:
    """The scene of a task.

    Raises:
        ValueError: it is no such file.
    """
    text = file.read_text()
    kind = re.search(r"\(problem\s+(\w+)\)", text)
    if kind is None:
        raise ValueError(f"{file} names no problem")
    return Problem(kind[1].lower(), _categories(text, "fixtures"), _categories(text, "objects"))


def _categories(text: str, section: str) -> dict[str, str]:
    """`{name: category}` of one list."""
    found = re.search(rf"\(:{section}\s([^)]*)\)", text)
    if found is None:
        raise ValueError(f"no list of {section}")
    return {
        name: category
        for names, category in re.findall(r"([^-]+?)\s+-\s+(\w+)", found[1])
        for name in names.split()
    }
