"""Check that (task, trial) alone determines the start of an episode.

The steps after a start are compared, too: the same actions must give the same rewards and
observations. This finds hidden state that a reset does not restore.
"""

from __future__ import annotations

from rlcore.contracts.specs import Episode
from rlcore_testing.conformance.base import (
    require,
    skip_unless,
)
from rlcore_testing.conformance.env_subject import (
    CHUNK,
    ROWS,
    EnvSubject,
    Play,
    arrays_of,
)


class StartChecks(EnvSubject):
    """Checks of the starts of episodes."""

    def test_a_start_repeats_after_other_episodes(self) -> None:
        env, expected = self.env(), self.reference()
        self.play(env, self.episodes(ROWS, first=ROWS), self.actions(ROWS, key=1))
        again = self.play(env, self.episodes(ROWS), self.actions(ROWS))
        for row in range(ROWS):
            self._require_same_play("played again in its row", again, row, expected, row)

    def test_a_start_is_the_same_in_another_row(self) -> None:
        expected = self.reference()
        order = [*range(1, ROWS), 0]
        episodes = [self.episodes(ROWS)[i] for i in order]
        moved = self.play(self.env(), episodes, self.actions(ROWS)[order])
        for row, i in enumerate(order):
            self._require_same_play(f"played in row {row} instead of {i}", moved, row, expected, i)

    def test_a_start_is_the_same_in_a_second_instance(self) -> None:
        expected = self.reference()
        other = self.play(self.env(instance=1), self.episodes(ROWS), self.actions(ROWS))
        for row in range(ROWS):
            self._require_same_play("played in a second instance", other, row, expected, row)

    def test_a_start_is_the_same_with_another_number_of_rows(self) -> None:
        expected = self.reference()
        for row, episode in enumerate(self.episodes(ROWS)):
            alone = self.play(self.env(1), [episode], self.actions(ROWS)[row : row + 1])
            self._require_same_play("played with num_envs=1", alone, 0, expected, row)

    def test_replicas_share_their_start(self) -> None:
        """Group-relative advantages rely on it."""
        expected = self.reference()
        episodes = [e._replace(replica=7, group=3) for e in self.episodes(ROWS)]
        replicas = self.play(self.env(), episodes, self.actions(ROWS))
        for row in range(ROWS):
            self._require_same_play("as another replica", replicas, row, expected, row)

    def test_trials_have_different_starts(self) -> None:
        trials = self.spec.train_trials[:ROWS]
        skip_unless(len(trials) > 1, "there is one trial")
        episodes = [Episode(0, trials[i % len(trials)]) for i in range(ROWS)]
        start = arrays_of(self.env().reset(options={"episodes": episodes})[0])
        require(
            any(bool((array != array[0]).any()) for array in start.values()),
            f"trials {list(trials)} of task {self.spec.tasks[0]!r} start alike, expected "
            "different starts",
            hint="the trial number must choose the start, e.g. as the seed of its generator",
        )

    def test_a_reset_without_episodes_starts_every_row(self) -> None:
        env = self.env()
        first, _ = env.reset(seed=5)
        result = env.chunk_step(self.actions(ROWS))
        require(
            bool(result.valid[:, 0].all()),
            f"after reset(seed=5) valid[:, 0] is {result.valid[:, 0].tolist()}, expected all true",
            hint="without options all rows start episodes of the env's choice",
        )
        again, _ = env.reset(seed=5)
        self.require_same("of a second reset(seed=5)", arrays_of(again), arrays_of(first),
                          hint="choose the episodes by the seed alone")  # fmt: skip

    def _require_same_play(self, how: str, got: Play, row: int, expected: Play, i: int) -> None:
        episode = self.episodes(ROWS)[i]
        start = f"of the start of (task {episode.task}, trial {episode.trial}), {how}"
        self.require_same(
            start,
            arrays_of(got.start, row),
            arrays_of(expected.start, i),
            hint="(task, trial) alone must fix the start: key its generator by them, and "
            "reset all that an episode changes",
        )
        if not self.spec.deterministic:
            return
        played = arrays_of(expected.result, i)
        if expected.result.terminated[i].any():  # pixels nobody acts on are unspecified
            played = {k: array for k, array in played.items() if not k.startswith("camera")}
        self.require_same(
            f"after {CHUNK} equal actions {start}",
            arrays_of(got.result, row),  # an info that none of its rows has is left out
            played,
            hint="something that the observation does not show differs at the start, or "
            "the simulation is random: key its noise by the episode; or say "
            "course_repeats=False in the spec",
        )
