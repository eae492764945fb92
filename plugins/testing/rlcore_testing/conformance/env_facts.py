"""Check that an env's spec is complete, and that observations and results match it."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from rlcore.config.tasks import spec_fault
from rlcore.contracts.protocols import Observation
from rlcore.contracts.specs import EnvSpec, Episode
from rlcore.validation.env import observation_fault
from rlcore.validation.faults import described
from rlcore_testing.conformance.base import (
    require,
    require_equal,
    require_none,
    skip_unless,
)
from rlcore_testing.conformance.env_subject import (
    ROWS,
    EnvSubject,
    arrays_of,
)


class FactChecks(EnvSubject):
    """Checks of the spec."""

    def test_tasks_and_sentences_pair_up(self) -> None:
        spec = self.spec
        require(
            len(spec.instructions) == len(spec.tasks) and all(spec.instructions),
            f"spec.instructions has {sum(map(bool, spec.instructions))} sentences for "
            f"{len(spec.tasks)} tasks, expected one for each",
            hint="policies read the sentence; give spec.instructions one entry per task, in order",
        )
        for group, members in spec.task_groups.items():
            stray = sorted(set(members) - set(spec.tasks))
            require(
                not stray,
                f"spec.task_groups[{group!r}] names {stray}, which spec.tasks does not",
                hint="restrict groups to the tasks of these settings",
            )

    def test_a_run_can_be_planned_with_it(self) -> None:
        fault = spec_fault(self.spec)
        require(not fault, f"spec: {fault}", hint="fix the spec function")

    def test_train_and_heldout_trials_are_disjoint(self) -> None:
        train, heldout = self.spec.train_trials, self.spec.heldout_trials
        for name, trials in (("train_trials", train), ("heldout_trials", heldout)):
            require(
                len(trials) > 0,
                f"spec.{name} is empty, expected trials of both splits",
                hint="trial numbers may be seeds of random starts: a long range costs nothing",
            )
        for one, other in combinations(self.spec.splits, 2):
            common = sorted({*self.spec.splits[one]} & {*self.spec.splits[other]})
            require(
                not common,
                f"spec.{one}_trials and spec.{other}_trials share {len(common)} trials, e.g. "
                f"{common[:1]}, expected none",
                hint="success at training starts shows no skill beyond them: split the range",
            )

    def test_the_env_has_the_facts_its_spec_function_gave(self) -> None:
        added = ("render_settings", "processes")  # to which the machine adds
        self.require_told("env.spec", EnvSpec, self.spec, before="simulators", apart=added)
        limit, real = self.config().max_episode_steps, self.spec.max_episode_steps
        require(
            real == limit,
            f"spec.max_episode_steps is {real}, expected the setting's {limit}",
            hint="read config.max_episode_steps",
        )

    def test_a_task_that_is_chosen_is_the_one_played(self) -> None:
        """Core finds the env's number of each task in `env.*.tasks` by the task's name."""
        tasks, trial = self.spec.tasks, self.spec.train_trials[0]
        skip_unless(len(tasks) > 1, "there is one task")
        env = self.env(1, tasks=[tasks[-1]])
        require(
            tasks[-1] in env.spec.tasks,
            f"with tasks=[{tasks[-1]!r}] env.spec.tasks is {env.spec.tasks}, without it",
            hint="give all tasks whatever config.tasks says: core narrows the spec",
        )
        chosen, whole = (
            self.play(one, [Episode(one.spec.tasks.index(tasks[-1]), trial)], self.actions(1))
            for one in (env, self.env(1))
        )
        self.require_same(
            f"of the start of ({tasks[-1]!r}, trial {trial}) with tasks=[{tasks[-1]!r}]",
            arrays_of(chosen.start),
            arrays_of(whole.start),
            hint="a task's number is its place in env.spec.tasks; leave config.tasks to core",
        )


class ObservationChecks(EnvSubject):
    """Checks of observations against the spec."""

    def test_observations_follow_the_spec(self) -> None:
        env = self.env()
        start, _ = env.reset(options={"episodes": self.episodes(ROWS)})
        self._require_observation("reset", start)
        require_equal(
            "elapsed after a reset",
            start["elapsed"],
            np.zeros(ROWS),
            hint="elapsed is steps / max_episode_steps of the row's episode",
        )
        self._require_observation("chunk_step", env.chunk_step(self.actions(ROWS)).observation)
        self._require_observation("step", env.step(self.actions(ROWS)[:, 0])[0])

    def _require_observation(self, call: str, observation: Observation) -> None:
        everywhere = np.ones(ROWS, dtype=bool)
        named = None if self.spec.open_instructions else self.spec.all_instructions
        require_none(call, observation_fault(self.spec, ROWS, observation, everywhere, named))

    def test_sentences_are_those_of_the_rows_tasks(self) -> None:
        episodes = self.episodes(ROWS)
        start, _ = self.env().reset(options={"episodes": episodes})
        sentences = start["task_descriptions"]
        for row, (episode, sentence) in enumerate(zip(episodes, sentences, strict=True)):
            own = self.spec.instructions[episode.task]
            require(
                sentence == own or sentence not in self.spec.instructions,
                f"row {row} plays task {self.spec.tasks[episode.task]!r} under the sentence "
                f"{sentence!r}, expected {own!r} or a refinement of it",
                hint="look the sentence up by the row's own episode.task",
            )

    def test_observations_handed_out_are_not_written_to_later(self) -> None:
        env = self.env()
        start, _ = env.reset(options={"episodes": self.episodes(ROWS)})
        first = env.chunk_step(self.actions(ROWS))
        handed = {"reset": arrays_of(start), "chunk_step": arrays_of(first)}
        kept = {call: {k: v.copy() for k, v in arrays.items()} for call, arrays in handed.items()}
        env.chunk_step(self.actions(ROWS, key=1))
        env.reset(options={"episodes": self.episodes(ROWS, first=ROWS)})
        for call, arrays in handed.items():
            for name, array in arrays.items():
                require_equal(
                    f"{name}, handed out by {call}, after later calls",
                    array,
                    kept[call][name],
                    hint="hand out copies: rollouts keep observations while the env goes on",
                )

    def test_what_is_handed_out_is_plain_arrays(self) -> None:
        """Results are sent between processes and Python versions, as numpy arrays and strings."""
        env = self.env()
        start, _ = env.reset(options={"episodes": self.episodes(ROWS)})
        handed = {**arrays_of(start), **arrays_of(env.chunk_step(self.actions(ROWS)))}
        for name, value in handed.items():
            require(
                isinstance(value, np.ndarray) and value.dtype.kind in "biufU",
                f"{name} is {described(value)}, expected a numpy array of numbers",
                hint="convert tensors and objects of the simulator before you hand them out",
            )
