"""Sets of tasks, as benchmarks/sets.yaml and experts.json name them, and the rules between the two.

A time limit and the tasks of a set follow from what its experts do on training starts. Nothing here
plays an episode: :mod:`parts.learning.experts` does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[3]
SETS = ROOT / "benchmarks/sets.yaml"
EXPERTS = ROOT / "benchmarks/experts.json"
RECIPE = "learning.yaml"
"""What a set's runs are based on, unless the set names another recipe."""
SUFFIX = "-v3"
"""End of the env's task names, which pages often leave out."""
IMITATED = "expo"
"""Arm whose successful episodes the control of own successes imitates."""


@dataclass(frozen=True)
class Planned:
    """What sets.yaml says of a set, whose comments say what each entry is."""

    role: str
    tasks: Sequence[str]
    recipe: str = RECIPE
    tables: Sequence[tuple[int, int]] = ((1, 576), (5, 576), (1, 1152))
    arms: Sequence[str] = ("rft", "ppo", "grpo", "expo", "sac")
    limit: int | None = None
    note: str = ""

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> Planned:
        """Return what an entry of sets.yaml says."""
        planned = cls(**entry)
        return replace(planned, tables=[(demos, episodes) for demos, episodes in planned.tables])


@dataclass(frozen=True)
class Expert:
    """How the expert of a task does on its training starts.

    Attributes:
        starts: number of starts that it played.
        solved: number of starts that it solved.
        steps: the fewest env steps within which it solves 95% of the starts (nearest rank; failed
            starts count as infinitely long); None if it solves fewer.
    """

    starts: int
    solved: int
    steps: int | None

    @classmethod
    def of_lengths(cls, lengths: Sequence[int | None]) -> Expert:
        """Summarise the env steps to success of each start; None: the expert failed."""
        solved = sorted(length for length in lengths if length is not None)
        rank = -(-95 * len(lengths) // 100)
        return cls(len(lengths), len(solved), solved[rank - 1] if rank <= len(solved) else None)


@dataclass(frozen=True)
class TaskSet:
    """A set of tasks that is ready to be played.

    Attributes:
        tasks: the env's names of the tasks.
        limit: time limit of the policy in env steps: that of sets.yaml, or the slowest expert's
            :attr:`Expert.steps` divided by 0.6, rounded up.
        replaced: task of sets.yaml -> task that was taken in its place.
    """

    tasks: Sequence[str]
    limit: int
    replaced: Mapping[str, str] = field(default_factory=dict)


def is_file(recipe: str) -> bool:
    """Return whether a recipe is a file of benchmarks/experiment, and not one of rlcore's."""
    return recipe.endswith(".yaml")


def time_limit(steps: Iterable[int]) -> int:
    """Return ceil(s / 0.6) for the largest s of `steps`, the experts' steps of each task."""
    return -(-max(steps) * 5 // 3)


def fill(
    tasks: Sequence[str],
    experts: Mapping[str, Expert],
    substitutes: Iterator[str],
    replaced: Mapping[str, str],
) -> dict[str, str]:
    """Return `{task: its replacement}` for the tasks whose experts solve less than 95% of starts.

    Args:
        tasks: tasks of a set.
        experts: an expert's results by task; asked for substitutes as they are taken.
        substitutes: further tasks, in the order in which they are to be taken.
        replaced: replacements of earlier, which stay as they are.

    Raises:
        StopIteration: no substitute is left.
    """
    return {
        task: replaced.get(task)
        or next(other for other in substitutes if experts[other].steps is not None)
        for task in tasks
        if experts[task].steps is None
    }


def unused(tasks: Iterable[str], texts: Iterable[str], taken: Iterable[str]) -> Iterator[str]:
    """Yield the tasks, in alphabetical order, that no set has taken and no text names.

    Args:
        tasks: all tasks of the env.
        texts: recipes and pages; a task counts as named with or without :data:`SUFFIX`.
        taken: tasks of sets.
    """
    everything = "\n".join(texts)
    taken = set(taken)
    for task in sorted(tasks):
        name = re.escape(task.removesuffix(SUFFIX))
        if task not in taken and not re.search(
            rf"(?<![\w-]){name}({SUFFIX})?(?![\w-])", everything
        ):
            yield task


def listed() -> tuple[dict[str, Planned], dict[str, dict[str, Any]]]:
    """Return the sets and the arms of sets.yaml, by name."""
    content = yaml.safe_load(SETS.read_text())
    return {name: Planned.of(each) for name, each in content["sets"].items()}, content["arms"]


def read_experts(path: Path = EXPERTS) -> tuple[dict[str, TaskSet], dict[str, Expert]]:
    """Return the sets and the experts of experts.json; both empty if there is no such file."""
    if not path.is_file():
        return {}, {}
    content = json.loads(path.read_text())
    sets = {name: TaskSet(**values) for name, values in content["sets"].items()}
    return sets, {task: Expert(**values) for task, values in content["experts"].items()}


def write_experts(
    sets: Mapping[str, TaskSet], experts: Mapping[str, Expert], path: Path = EXPERTS
) -> None:
    """Write experts.json."""
    content = {
        "sets": {name: asdict(each) for name, each in sets.items()},
        "experts": {task: asdict(expert) for task, expert in sorted(experts.items())},
    }
    path.write_text(json.dumps(content, indent=1) + "\n")
