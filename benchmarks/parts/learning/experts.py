"""Play the experts of a set's tasks on training starts, without rendering what they see."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import rlcore
from parts.learning.sets import (
    ROOT,
    Expert,
    TaskSet,
    fill,
    listed,
    read_experts,
    time_limit,
    unused,
    write_experts,
)
from rlcore.api import build_checked_env
from rlcore.checks.facts import env_spec
from rlcore.contracts.specs import Episode
from rlcore.plugins.registry import load_plugins

RECIPE = ROOT / "benchmarks/experiment/learning.yaml"
STARTS = 70
"""Training starts of each task that its expert plays: as many as a policy is evaluated on."""
LONGEST = 500
"""Env steps after which an expert has failed; MetaWorld's own limit."""
PAGES = "learning-*.md"
"""Pages of this benchmark, whose tasks are those of the sets."""


class Experts(Mapping[str, Expert]):
    """Results by task. A task is played when it is asked for the first time.

    Args:
        known: results of earlier.
    """

    def __init__(self, known: Mapping[str, Expert]) -> None:
        self._known = dict(known)

    def __getitem__(self, task: str) -> Expert:
        if task not in self._known:
            self._known[task] = play(task)
            print(task, self._known[task], flush=True)
        return self._known[task]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


def play(task: str) -> Expert:
    """Have the expert of a task play its first training starts."""
    config = rlcore.compose(
        RECIPE, f"env.*.tasks=[{task}]", "env.train.num_processes=0", "env.train.total_num_envs=1"
    )
    env, spec = build_checked_env(config, "train", 1)
    episodes = [Episode(0, trial) for trial in spec.trials("train")[:STARTS]]
    try:
        played = [
            len(each.actions) if each.success else None
            for each in env.demonstrate(
                episodes, action_noise=0.0, speed=1.0, stride=LONGEST, seed=0, max_steps=LONGEST
            )
        ]
    finally:
        env.close()
    return Expert.of_lengths(played)


def derive() -> dict[str, TaskSet]:
    """Play the experts that are not in experts.json yet, write it, and return the sets."""
    named = {name: each["tasks"] for name, each in listed()["sets"].items()}
    earlier, known = read_experts()
    experts = Experts(known)
    replaced = {old: new for each in earlier.values() for old, new in each.replaced.items()}
    pages = (path for path in Path(ROOT / "docs").rglob("*.md") if not path.match(PAGES))
    texts = [path.read_text() for path in (*Path(ROOT / "configs").rglob("*.yaml"), *pages)]
    env = env_spec(load_plugins(), "env.train", rlcore.compose("env=metaworld").env.train)
    taken = [*replaced.values(), *(task for tasks in named.values() for task in tasks)]
    substitutes = unused(env.tasks, texts, taken)
    sets = {}
    for name, tasks in named.items():
        filled = fill(tasks, experts, substitutes, replaced)
        present = [filled.get(task, task) for task in tasks]
        steps = [step for task in present if (step := experts[task].steps) is not None]
        sets[name] = TaskSet(present, time_limit(steps), filled)
    write_experts(sets, experts)
    return sets
