"""Check that an env's spec is complete, and that observations and results match it."""

from __future__ import annotations

import copy
from itertools import combinations

import numpy as np

from rlcore.config.tasks import spec_fault
from rlcore.contracts.specs import Episode
from rlcore.validation.env import observation_fault
from rlcore_testing.conformance.base import (
    require,
    require_arrays,
    require_equal,
    require_valid,
    skip_unless,
)
from rlcore_testing.conformance.env_subject import ALL_ROWS, ROWS, EnvSubject, arrays_of


class FactChecks(EnvSubject):
    """Checks of the spec, and of observations against it."""

    def test_a_run_can_be_planned_with_it(self) -> None:
        fault = spec_fault(self.spec)
        assert not fault, f"spec: {fault}\n  hint: fix the spec function"

    def test_tasks_and_sentences_pair_up(self) -> None:
        spec = self.spec
        count = sum(map(bool, spec.instructions))
        assert count == len(spec.tasks) == len(spec.instructions), (
            f"spec.instructions has {count} sentences for {len(spec.tasks)} tasks, expected one "
            "for each\n  hint: give spec.instructions one entry per task, in order"
        )
        grouped = {task for tasks in spec.task_groups.values() for task in tasks}
        require(
            "the list of tasks that only spec.task_groups names",
            sorted(grouped - {*spec.tasks}),
            [],
            "restrict groups to the tasks of these settings",
        )

    def test_train_and_heldout_trials_are_disjoint(self) -> None:
        splits = self.spec.splits
        for name in ("train", "heldout"):
            assert splits[name], (
                f"spec.{name}_trials is empty, expected trials of both splits\n  hint: trial "
                "numbers may be seeds of random starts: a long range costs nothing"
            )
        for first, second in combinations(splits, 2):
            common = {*splits[first]} & {*splits[second]}
            assert not common, (
                f"spec.{first}_trials and spec.{second}_trials share {len(common)} trials, e.g. "
                f"{min(common)}, expected none\n  hint: success at training starts shows no skill "
                "beyond them: split the range"
            )

    def test_the_env_has_the_facts_its_spec_function_gave(self) -> None:
        self.require_planned("env.spec", self.spec, apart="render_settings processes")
        limit = self.spec.max_episode_steps
        hint = "read config.max_episode_steps"
        require("spec.max_episode_steps", limit, self.config().max_episode_steps, hint)

    def test_a_task_that_is_chosen_is_the_one_played(self) -> None:
        """Core finds the env's number of each task in `env.*.tasks` by the task's name."""
        task = self.spec.tasks[-1]
        trial = self.spec.train_trials[0]
        skip_unless(len(self.spec.tasks) > 1, "there is one task")
        env = self.env(1, tasks=[task])
        hint = "a task's number is its place in env.spec.tasks; leave config.tasks to core"
        assert task in env.spec.tasks, (
            f"with tasks=[{task!r}] env.spec.tasks is {env.spec.tasks}, without it\n  hint: {hint}"
        )
        chosen, whole = (
            env.reset(options={"episodes": [Episode(env.spec.tasks.index(task), trial)]})[0]
            for env in (env, self.env(1))
        )
        start = f"of the start of ({task!r}, trial {trial}) with tasks=[{task!r}]"
        self.require_same(start, arrays_of(chosen), arrays_of(whole), hint)

    def test_observations_follow_the_spec(self) -> None:
        env = self.env()
        episodes = self.episodes(ROWS)
        spec = self.spec
        start, _ = env.reset(options={"episodes": episodes})
        observations = {
            "reset": start,
            "chunk_step": env.chunk_step(self.actions(ROWS)).observation,
            "step": env.step(self.actions(ROWS)[:, 0])[0],
        }
        allowed = None if spec.open_instructions else spec.all_instructions
        for call, observation in observations.items():
            require_valid(call, observation_fault(spec, ROWS, observation, ALL_ROWS, allowed))
        hint = "elapsed is steps / max_episode_steps of the row's episode"
        require_equal("elapsed after a reset", start["elapsed"], np.zeros(ROWS), hint)
        for row, sentence in enumerate(start["task_descriptions"]):
            own = spec.instructions[episodes[row].task]
            assert sentence == own or sentence not in spec.instructions, (
                f"row {row} plays task {spec.tasks[episodes[row].task]!r} under the sentence "
                f"{sentence!r}, expected {own!r} or a refinement of it\n  hint: look the sentence "
                "up by the row's own episode.task"
            )

    def test_observations_handed_out_are_not_written_to_later(self) -> None:
        env = self.env()
        start, _ = env.reset(options={"episodes": self.episodes(ROWS)})
        result = env.chunk_step(self.actions(ROWS))
        returned = {"reset": arrays_of(start), "chunk_step": arrays_of(result)}
        copies = copy.deepcopy(returned)
        self.play(env, self.episodes(ROWS, first=ROWS), self.actions(ROWS, key=1))
        hint = "hand out copies: rollouts keep observations while the env goes on"
        for call, arrays in returned.items():
            label = f", handed out by {call}, after later calls"
            require_arrays(label, arrays, copies[call], hint)
