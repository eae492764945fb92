"""Read the scene of a task from its file, without importing LIBERO.

A task is a text in BDDL, a language of nested brackets. rlcore needs three flat lists of it:
`(problem NAME)`, and `names - category` under `:fixtures` and `:objects`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from rlcore_env_libero.suites import FOLDERS


@dataclass(frozen=True)
class Problem:
    """Scene of a task, as its file describes it.

    Attributes:
        kind: kind of the scene, in lower case, e.g. "libero_floor_manipulation".
        fixtures, objects: category of each fixture or object by its name, in the file's order.
    """

    kind: str
    fixtures: dict[str, str]
    objects: dict[str, str]


def task_file(libero: Path, task: str) -> Path:
    """Return the BDDL file of a task in LIBERO's folder."""
    return libero / "bddl_files" / FOLDERS[task] / f"{task}.bddl"


def init_file(libero: Path, task: str) -> Path:
    """Return the file of a task's init states in LIBERO's folder."""
    return libero / "init_files" / FOLDERS[task] / f"{task}.pruned_init"


def read_problem(file: Path) -> Problem:
    """Read the scene of a task from its BDDL file.

    Raises:
        ValueError: the file lacks one of the three lists.
    """
    text = file.read_text()
    kind = re.search(r"\(problem\s+(\w+)\)", text)
    if kind is None:
        raise ValueError(f"{file} names no problem")
    return Problem(kind[1].lower(), _categories(text, "fixtures"), _categories(text, "objects"))


def _categories(text: str, section: str) -> dict[str, str]:
    """Return `{name: category}` of the list in a section.

    Raises:
        ValueError: the text has no such section.
    """
    section_text = re.search(rf"\(:{section}\s([^)]*)\)", text)
    if section_text is None:
        raise ValueError(f"no list of {section}")
    return {
        name: category
        for names, category in re.findall(r"([^-]+?)\s+-\s+(\w+)", section_text[1])
        for name in names.split()
    }
