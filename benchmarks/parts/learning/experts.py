"""Play the experts of a set's tasks on training starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import rlcore
from parts.learning.runs import base
from parts.learning.sets import (
    RECIPE,
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
from rlcore.contracts.errors import ConfigError
from rlcore.contracts.specs import Episode
from rlcore.plugins.registry import load_plugins

STARTS = 70
"""Training starts of each task that its expert plays: as many as a policy is evaluated on."""
LONGEST = 500
"""Env steps after which an expert has failed; MetaWorld's own limit, more than others need."""
PAGES = "learning-*.md"
"""Pages of this benchmark, whose tasks are those of the sets."""


class Experts(Mapping[str, Expert]):
    """Results by task. A task is played when it is asked for the first time.

    Args:
        known: results of earlier.
        recipes: the recipe whose env has a task; :data:`RECIPE` for a task that is missing.
    """

    def __init__(self, known: Mapping[str, Expert], recipes: Mapping[str, str]) -> None:
        self._known = dict(known)
        self._recipes = recipes

    def __getitem__(self, task: str) -> Expert:
        if task not in self._known:
            self._known[task] = play(task, self._recipes.get(task, RECIPE))
            print(task, self._known[task], flush=True)
        return self._known[task]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


def play(task: str, recipe: str) -> Expert:
    """Have the expert of a task play its first training starts."""
    config = rlcore.compose(
        *base(recipe),
        f"env.*.tasks=[{task}]",
        "env.train.num_processes=1",  # some envs need another interpreter
        "env.train.total_num_envs=1",
    )
    env, spec = build_checked_env(config, "train", 1)
    # where a chunk is one motion, its length decides what the expert does
    stride = config.collect.stride if spec.whole_chunks else LONGEST
    episodes = [Episode(0, trial) for trial in spec.trials("train")[:STARTS]]
    try:
        played = [
            len(each.actions) if each.success else None
            for each in env.demonstrate(
                episodes,
                action_noise=0.0,
                speed=1.0,
                stride=stride,
                seed=0,
                max_steps=LONGEST,
            )
        ]
    finally:
        env.close()
    return Expert.of_lengths(played)


def derive() -> dict[str, TaskSet]:
    """Play the experts that are not in experts.json yet, write it, and return the sets.

    Raises:
        ConfigError: an expert fails, and no task is left to take its place.
    """
    planned, _ = listed()
    earlier, known = read_experts()
    recipes = {task: each.recipe for each in planned.values() for task in each.tasks}
    experts = Experts(known, recipes)
    replaced = {old: new for each in earlier.values() for old, new in each.replaced.items()}
    pages = (path for path in Path(ROOT / "docs").rglob("*.md") if not path.match(PAGES))
    texts = [path.read_text() for path in (*Path(ROOT / "configs").rglob("*.yaml"), *pages)]
    env = env_spec(load_plugins(), "env.train", rlcore.compose("env=metaworld").env.train)
    substitutes = unused(env.tasks, texts, [*replaced.values(), *recipes])
    sets = {}
    for name, each in planned.items():
        replaceable = each.tasks if each.recipe == RECIPE else ()
        try:
            filled = fill(replaceable, experts, substitutes, replaced)
        except StopIteration:
            failing = [task for task in each.tasks if experts[task].steps is None]
            raise ConfigError(
                f"set {name}: the experts of {', '.join(failing)} solve less than 95% of their "
                "training starts, and no task is left to take in their place",
                hint="choose other tasks in benchmarks/sets.yaml",
            ) from None
        present = [filled.get(task, task) for task in each.tasks]
        # a benchmark's task whose expert is too weak says nothing of the limit
        steps = [step for task in present if (step := experts[task].steps) is not None]
        if not steps and each.limit is None:
            raise ConfigError(
                f"set {name}: the experts of {', '.join(present)} solve less than 95% of their "
                "training starts, so that no time limit follows from them",
                hint=f"set limit of {name} in benchmarks/sets.yaml",
            )
        sets[name] = TaskSet(present, each.limit or time_limit(steps), filled)
    write_experts(sets, experts)
    return sets
