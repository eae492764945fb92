"""What rollout workers are told about the episodes that they play."""

from __future__ import annotations

from typing import Any

import pytest
from internals import Column, GatherOrder, assemble, compose
from rlcore_testing.toy_settings import GOALS

from rlcore.contracts.specs import Episode
from rlcore.training.gather import gather

TASKS = tuple(GOALS)


class Asked(Exception):
    """Raised in place of a conversation."""


class Workers:
    """One worker of each component, which notes its jobs."""

    jobs: list[Any]

    def ranks(self, component):
        return 1

    def converse(self, env_jobs, jobs, on_count):
        self.jobs = jobs
        raise Asked


@pytest.mark.parametrize(("side", "tasks"), [("train", TASKS), ("eval", TASKS[1:2])])
def test_keys_number_the_tasks_of_the_side_that_is_played(side, tasks):
    words = ["env=toy", "model=toy", "algorithm=grpo", f"env.eval.tasks=[{TASKS[1]}]"]
    order = GatherOrder(
        side, [Column(0, (Episode(0, 0, 0),))], side, 0, deterministic=True, keep=False
    )
    workers = Workers()
    with pytest.raises(Asked):
        gather(workers, assemble(compose(words)), order)
    assert [job.keys(()).tasks for job in workers.jobs] == [tuple(tasks)]
